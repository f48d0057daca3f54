# Once, before mosquitto starts for the first time.
mosquitto_ctrl dynsec init /var/lib/mosquitto/dynamic-security.json admin ADMIN_PASSWORD
