# A device by Eclipse paho: subscribes, prints the first command, replies, reports a position at QoS 1, and leaves in order.
import json
import sys
import threading

import paho.mqtt.client as mqtt

setup = json.loads(sys.argv[1])
is_newer = setup["version"] == "5"
client = mqtt.Client(
    client_id=setup["clientId"],
    protocol=mqtt.MQTTv5 if is_newer else mqtt.MQTTv311,
    transport=setup["transport"],
)
client.username_pw_set(setup["username"], setup["password"])
if setup["transport"] == "websockets":
    client.ws_set_options(path=setup["path"])
commanded = threading.Event()
commands = []


def on_connect(client, userdata, flags, reason, properties=None):
    if reason != 0:
        sys.exit(f"refused: {reason}")
    client.subscribe(setup["commandTopic"], qos=1)


def on_message(client, userdata, message):
    commands.append(message.payload.decode())
    commanded.set()


client.on_connect = on_connect
client.on_message = on_message
client.connect("127.0.0.1", setup["port"], keepalive=60)
client.loop_start()
if not commanded.wait(15):
    sys.exit("no command")
print(commands[0])
reply = {"method": "thing.service.property.set_reply", "id": json.loads(commands[0])["id"], "code": 200}
client.publish(setup["reportTopic"], json.dumps(reply), qos=1).wait_for_publish()
client.publish(setup["reportTopic"], json.dumps({"params": {"position": "middle"}}), qos=1).wait_for_publish()
client.disconnect()
client.loop_stop()
