// Reads the code on a device's box with the camera, in browsers that read such codes themselves; others get no button.
import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { codeOfAddress } from '../router.ts';
import type { DeviceCode } from '../state/device-code.ts';
import { addingTexts } from '../texts/adding.ts';
import { Dialog } from '../parts/dialog.tsx';
import { Problem } from '../parts/form.tsx';

/** Not in the types of TypeScript (https://developer.mozilla.org/docs/Web/API/BarcodeDetector). */
type Detector = { detect: (source: HTMLVideoElement) => Promise<{ rawValue: string }[]> };
type DetectorClass = new (options: { formats: string[] }) => Detector;

const words = addingTexts.add.code;
const lookEveryMs = 250;

export function CodeReader({ onRead }: { onRead: (code: DeviceCode) => void }) {
  const isOpen = useSignal(false);
  const { BarcodeDetector } = window as { BarcodeDetector?: DetectorClass };
  if (BarcodeDetector === undefined) return <p class="hint">{words.noCamera}</p>;
  return (
    <>
      <button type="button" onClick={() => (isOpen.value = true)}>
        {words.scan}
      </button>
      {isOpen.value && (
        <Dialog title={words.scan} onClose={() => (isOpen.value = false)}>
          <Camera
            detector={new BarcodeDetector({ formats: ['qr_code'] })}
            onRead={(code) => {
              isOpen.value = false;
              onRead(code);
            }}
          />
        </Dialog>
      )}
    </>
  );
}

function Camera({ detector, onRead }: { detector: Detector; onRead: (code: DeviceCode) => void }) {
  const video = useRef<HTMLVideoElement>(null);
  const problem = useSignal('');
  useEffect(() => {
    const leaving = new AbortController();
    watch(video.current, detector, leaving.signal, (text) => {
      const code = codeOfAddress(text);
      if (code === undefined) problem.value = words.otherCode;
      else onRead(code);
    }).catch((error: unknown) => (problem.value = words.cameraFailed(String(error))));
    return () => leaving.abort();
  }, []);
  return (
    <>
      <p class="hint">{words.scanHint}</p>
      <video ref={video} class="camera" autoplay muted playsInline />
      <Problem text={problem.value} />
    </>
  );
}

/** Looks several times a second until `leaving`, and switches the camera off then. */
async function watch(
  video: HTMLVideoElement | null,
  detector: Detector,
  leaving: AbortSignal,
  onText: (text: string) => void,
): Promise<void> {
  const stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: 'environment' } });
  try {
    if (video !== null) video.srcObject = stream;
    while (video !== null && !leaving.aborted) {
      const [code] = video.readyState >= HTMLMediaElement.HAVE_CURRENT_DATA ? await detector.detect(video) : [];
      if (code !== undefined) onText(code.rawValue);
      await new Promise((resolve) => {
        setTimeout(resolve, lookEveryMs);
      });
    }
  } finally {
    for (const track of stream.getTracks()) track.stop();
  }
}
