# Once, after mosquitto has started: the account of the bridge, the only one that is made by hand. BRIDGE_CLIENT_ID is the
# bridge's MQTT_CLIENT_ID, or what it made up at its first start: the content of mqtt-client-id in its spool folder.
# No password is an argument of a program: others on this machine can read arguments.
XDG_CONFIG_HOME=$(mktemp -d)
export XDG_CONFIG_HOME
trap 'rm -r "$XDG_CONFIG_HOME"' EXIT
printf '%s\n' '-h 127.0.0.1' '-p 1883' '-u admin' '-P ADMIN_PASSWORD' > "$XDG_CONFIG_HOME/mosquitto_ctrl"
dynsec() { mosquitto_ctrl dynsec "$@"; }
# It asks twice.
password() { printf '%s\n' 'BRIDGE_MQTT_PASSWORD' 'BRIDGE_MQTT_PASSWORD'; }
dynsec createRole latchwork-bridge
dynsec addRoleACL latchwork-bridge subscribeLiteral /sys/+/+/thing/event/property/post allow
dynsec addRoleACL latchwork-bridge subscribeLiteral /sys/+/+/thing/service/property/set_reply allow
dynsec addRoleACL latchwork-bridge subscribeLiteral /sys/+/+/status allow
dynsec addRoleACL latchwork-bridge subscribeLiteral /sys/+/+/thing/ota/inform allow
dynsec addRoleACL latchwork-bridge subscribeLiteral /sys/+/+/thing/ota/progress allow
dynsec addRoleACL latchwork-bridge subscribeLiteral /sys/+/+/thing/ota/get allow
dynsec addRoleACL latchwork-bridge publishClientSend /sys/+/+/thing/service/property/set allow
dynsec addRoleACL latchwork-bridge publishClientSend /sys/+/+/status allow
dynsec addRoleACL latchwork-bridge publishClientSend /sys/+/+/thing/ota/upgrade allow
dynsec addRoleACL latchwork-bridge publishClientSend /sys/+/+/thing/ota/data allow
dynsec addRoleACL latchwork-bridge publishClientSend '$CONTROL/dynamic-security/v1' allow
dynsec addRoleACL latchwork-bridge subscribeLiteral '$CONTROL/dynamic-security/v1/response' allow
dynsec addRoleACL latchwork-bridge publishClientReceive '$CONTROL/dynamic-security/v1/response' allow
password | dynsec createClient latchwork-bridge -c BRIDGE_CLIENT_ID
dynsec addClientRole latchwork-bridge latchwork-bridge
# mosquitto answers what it could not save like what it could: the account has to be in its file.
grep -q '"latchwork-bridge"' /var/lib/mosquitto/dynamic-security.json || {
  echo 'error: mosquitto cannot write /var/lib/mosquitto/dynamic-security.json: its user has to own it' >&2
  exit 1
}
