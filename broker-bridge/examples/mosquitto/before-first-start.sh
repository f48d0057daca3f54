# Once, before mosquitto starts for the first time, as root. mosquitto runs as its own user and has to write this file: while it
# cannot, each change is answered as done, and is gone after a restart.
printf '%s\n' 'ADMIN_PASSWORD' 'ADMIN_PASSWORD' | mosquitto_ctrl dynsec init /var/lib/mosquitto/dynamic-security.json admin
chown mosquitto: /var/lib/mosquitto/dynamic-security.json
chmod 600 /var/lib/mosquitto/dynamic-security.json
