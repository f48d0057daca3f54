// Texts about adding a device by Bluetooth or by hand.
export const addingTexts = {
  add: {
    title: 'Add a device',
    intro: 'The device joins your Wi-Fi, reports to this service, and is yours from then on.',
    bluetooth: 'Over Bluetooth',
    ssid: 'Wi-Fi name',
    ssidHint: 'Most switches join networks of 2.4 GHz only.',
    password: 'Wi-Fi password',
    passwordHint:
      'Leave it empty for an open network. It goes to the device alone: neither this page nor the service keeps it.',
    showPassword: 'Show the password',
    choose: 'Choose the device',
    choosingHint:
      'Choose it in the list that the browser shows: its name begins with IoT-Switch- or IoT-Wakeup-. If there is no list, or nothing in it: turn on Bluetooth on this computer or phone, and switch the device to pairing.',
    progress: 'Progress',
    linkLost: 'The device left Bluetooth, as many do to join a network. Waiting for it at the service.',
    said: (detail: string) => `It said: ${detail}`,
    added: 'The device is activated, and it is yours.',
    open: 'Open the device',
    adapterOff: 'Bluetooth is off, or this computer has none: turn it on first.',
    noBluetooth:
      'This browser cannot use Bluetooth. Chrome and Edge can, on Windows, macOS, Linux and Android; Firefox and all browsers on iPhone and iPad cannot. Open this page there, or add the device by hand.',
    insecure:
      'Browsers allow Bluetooth only on pages with https://, or at http://localhost on this computer. Open the console there, or add the device by hand.',
    address: 'Service address for the device',
    addressHint: 'How the device reaches this service from your network.',
    loopback: (base: string) =>
      `${base} is reached from this computer only. For a real device put in the address of this computer in your network, e.g. http://192.168.1.20:8787, and start the service with PUBLIC_HOST=192.168.1.20.`,
    steps: {
      choosing: 'Choose the device',
      connecting: 'Connecting to the device',
      sendingConfig: 'Sending the Wi-Fi data',
      waitingWifi: 'The device joins the Wi-Fi',
      wifiConnected: 'It is in the Wi-Fi and looks for the service',
      activating: 'It is activated: the service confirms it',
    },
    problems: {
      cancelled: {
        title: 'No device was chosen.',
        advice:
          'Choose again. A device that is not in the list has to be in pairing mode, close by, and not connected to another phone.',
      },
      adapter: {
        title: 'Bluetooth is off, or this computer has none.',
        advice: 'Turn Bluetooth on in the settings of the system, then choose again.',
      },
      forbidden: {
        title: 'The browser did not allow Bluetooth.',
        advice: 'Allow Bluetooth for this page in the settings of the browser and the system, then choose again.',
      },
      unreachable: {
        title: 'The device could not be reached.',
        advice: 'Go closer, see that it is in pairing mode and no other phone is connected to it, then choose again.',
      },
      other_device: {
        title: 'This device cannot be set up here.',
        advice:
          'It does not speak the provisioning channel (service FFE0). Choose another one, or update its firmware.',
      },
      write_failed: {
        title: 'The device did not take the Wi-Fi data.',
        advice: 'Switch it off and on, then choose again.',
      },
      dropped: {
        title: 'The connection to the device was lost.',
        advice: 'Nothing is set up yet. Go closer, switch the device to pairing again, then choose again.',
      },
      wifi_failed: {
        title: 'The device could not join the Wi-Fi.',
        advice:
          'Check name and password, upper and lower case included. Most devices join networks of 2.4 GHz only. Then choose again.',
      },
      wifi_silent: {
        title: 'The device did not say that it joined the Wi-Fi.',
        advice:
          'Check name and password and go closer to the router, switch the device to pairing again, then choose again.',
      },
      activation_failed: {
        title: 'The device is in the Wi-Fi, and could not activate.',
        advice:
          'Check that it reaches the service address below from your network, and that its product exists and takes new devices.',
      },
      activation_silent: {
        title: 'The device is in the Wi-Fi, and did not come to the service.',
        advice:
          'Check that it reaches the service address below from your network: a firewall, or an address of this computer alone, keeps it away.',
      },
      not_here: {
        title: 'The device says that it is activated, and this service does not know it.',
        advice: 'It may have activated at another service. Switch it to pairing again, then choose again.',
      },
      ssid_length: {
        title: 'The Wi-Fi name is not right.',
        advice: 'It has 1 to 32 bytes; letters with accents take two or more.',
      },
      password_length: {
        title: 'The Wi-Fi password is not right.',
        advice: 'It has 8 to 64 characters, or none for an open network.',
      },
      config_length: {
        title: 'Name, password and address are too long together.',
        advice: 'A device takes 512 bytes. Use a shorter service address.',
      },
      service: { title: 'The service did not make an address for the device.', advice: 'Try again.' },
    },
    code: {
      title: 'Code on the box',
      hint: 'Some devices have a QR code on the box or the device. Such a device is added only with its code.',
      scan: 'Read the code with the camera',
      scanHint: 'Hold the QR code in front of the camera.',
      noCamera: 'This browser reads no codes: open the code with the camera of a phone, or type it in.',
      cameraFailed: (why: string) => `The camera cannot be used: ${why}`,
      otherCode: 'This is no code of a device.',
      byHand: 'Type it in',
      use: 'Use this code',
      productKey: 'Product key',
      deviceSN: 'Serial number',
      claimCode: 'Claim code',
      present: (serial: string) => `The code of device ${serial} is read. Only this device is added.`,
      remove: 'Another device',
    },
    manual: {
      title: 'By hand',
      hint: 'For an app of your own, a tool like nRF Connect, or a device that takes its service address in another way.',
      onlyWay:
        'Give the device an address that makes it yours, with an app of your own, a tool like nRF Connect, or its own web page.',
      make: 'Make an address',
      address: 'Service address of the device (apiUrl)',
      whatNow: 'The first device that activates at this address is yours. Send it in one of these ways:',
      overBluetooth: 'Over Bluetooth, write this JSON:',
      service: 'Service',
      write: 'Write to',
      notify: 'Status from',
      overHttp: 'Or activate from the device itself, over HTTP:',
      waiting: (minutes: number) => `Waiting for the device. The address is good for ${minutes} min.`,
      expired: 'No device came in time. The address is no longer good.',
    },
  },
};
