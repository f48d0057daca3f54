// MQTT clients of others that tests run as they are packaged: mosquitto's, and paho with Debian's Python.
import { spawnSync } from 'node:child_process';

/** Debian's own, which sees Debian's packages, before any other on the path. */
const pythons = ['/usr/bin/python3', 'python3'];
const withPaho = pythons.find((python) => spawnSync(python, ['-c', 'import paho.mqtt.client']).status === 0);

export const pythonWithPaho = withPaho ?? 'python3';

/** Why tests with paho are skipped here, or null if it is installed. */
export const pahoMissing = withPaho === undefined ? 'paho is not installed (apt-get install python3-paho-mqtt)' : null;

/** The same for tests with the client that behaves as Home Assistant does. */
export const homeClientMissing =
  pahoMissing ??
  (spawnSync(pythonWithPaho, ['-c', 'import jinja2']).status === 0
    ? null
    : 'jinja2 is not installed (apt-get install python3-jinja2)');

/** The same for mosquitto_pub and mosquitto_sub. */
export const mosquittoClientsMissing =
  spawnSync('mosquitto_pub', ['--help']).error === undefined
    ? null
    : 'mosquitto_pub is not installed (apt-get install mosquitto-clients)';
