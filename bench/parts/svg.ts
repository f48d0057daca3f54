// A small writer of SVG charts, readable on light and on dark pages: text, bars and lines with classes, whose colours are in
// one style. Knows no benchmark.

export type Shape = string;

const style = `
  svg { font: 13px system-ui, -apple-system, 'Segoe UI', sans-serif; }
  .page { fill: #ffffff; } .text { fill: #1f2933; } .soft { fill: #52606d; } .title { font-size: 16px; font-weight: 600; }
  .line { stroke: #cbd2d9; } .range { stroke: #1f2933; stroke-width: 1.5; } .target { stroke: #c2410c; stroke-width: 2; }
  .goal { fill: #c2410c; }
  .c0 { fill: #2563b0; stroke: #2563b0; } .c1 { fill: #b7791f; stroke: #b7791f; } .c2 { fill: #2f855a; stroke: #2f855a; }
  .c3 { fill: #805ad5; stroke: #805ad5; } .c4 { fill: #c05680; stroke: #c05680; } .c5 { fill: #718096; stroke: #718096; }
  .path { fill: none; stroke-width: 2; } .bar { stroke: none; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; } .text { fill: #e6edf3; } .soft { fill: #9da7b3; }
    .line { stroke: #30363d; } .range { stroke: #e6edf3; } .target { stroke: #fb923c; } .goal { fill: #fb923c; }
    .c0 { fill: #5b9cf0; stroke: #5b9cf0; } .c1 { fill: #e0b050; stroke: #e0b050; } .c2 { fill: #56c08a; stroke: #56c08a; }
    .c3 { fill: #b29af0; stroke: #b29af0; } .c4 { fill: #ec8fb2; stroke: #ec8fb2; } .c5 { fill: #8b98a8; stroke: #8b98a8; }
    .path { fill: none; }
  }`;

export function text(x: number, y: number, content: string, classes = 'text', anchor = 'start'): Shape {
  return `<text x="${x}" y="${round(y)}" class="${classes}" text-anchor="${anchor}">${escape(content)}</text>`;
}

export function bar(x: number, y: number, width: number, height: number, classes: string): Shape {
  return `<rect x="${round(x)}" y="${round(y)}" width="${round(Math.max(width, 0))}" height="${height}" class="bar ${classes}"/>`;
}

export function line(x1: number, y1: number, x2: number, y2: number, classes = 'line'): Shape {
  return `<line x1="${round(x1)}" y1="${round(y1)}" x2="${round(x2)}" y2="${round(y2)}" class="${classes}"/>`;
}

export function path(points: readonly { x: number; y: number }[], classes: string): Shape {
  const joined = points.map(({ x, y }, index) => `${index === 0 ? 'M' : 'L'}${round(x)} ${round(y)}`).join(' ');
  const dots = points.map(({ x, y }) => `<circle cx="${round(x)}" cy="${round(y)}" r="3" class="${classes}"/>`);
  return `<path d="${joined}" class="path ${classes}"/>${dots.join('')}`;
}

/** `caption` is below the title and says what was measured where. */
export function chart(
  size: { width: number; height: number },
  { title, caption }: { title: string; caption: string },
  shapes: readonly Shape[],
): string {
  const { width, height } = size;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">`,
    `<title>${escape(title)}</title>`,
    `<style>${style}</style>`,
    `<rect width="${width}" height="${height}" rx="6" class="page"/>`,
    text(20, 30, title, 'text title'),
    text(20, 50, caption, 'soft'),
    ...shapes,
    '</svg>\n',
  ].join('\n');
}

/** Round values up to a little more than `max`, about `count` of them. */
export function ticksTo(max: number, count = 5): number[] {
  const rough = max / count;
  const magnitude = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 2.5, 5, 10].find((factor) => factor * magnitude >= rough) ?? 10) * magnitude;
  return Array.from({ length: Math.floor(max / step + 1e-9) + 1 }, (_, index) => Number((index * step).toPrecision(6)));
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

function escape(content: string): string {
  return content.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
