# A client that behaves as Home Assistant's MQTT client does, with Debian's paho and jinja2. It subscribes, applies discovery by device,
# keeps a state for each entity and publishes commands. It prints its state as a line of JSON after each change, and reads orders as
# lines of JSON. With --check it reads messages instead, without a broker, and prints its state at the end.
#
# The rules were read in Home Assistant 2025.4.4, homeassistant/components/mqtt: abbreviations.py, schemas.py, config.py and the five
# platforms (members), discovery.py and entity.py (what discovery adds, changes and removes), client.py (subscriptions, retain flag,
# birth), models.py and helpers/template.py (templates). Subscription identifiers were read in client.py of 2026.11.0.
# Stricter than Home Assistant: unknown members, empty payloads, undefined names, unknown values of a switch and the unique id of another
# platform are complaints, and such a configuration or value is not applied. Its pauses before birth and reconnect are shorter.
# Not here: discovery by component, availability_topic, command templates, and device classes that no rule below names.
import json
import os
import re
import sys
import threading
import time
from itertools import chain

import paho.mqtt.client as mqtt
from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

SHORT = """avty=availability avty_mode=availability_mode cmd_t=command_topic cmps=components dev=device dev_cla=device_class e=encoding
en=enabled_by_default ent_cat=entity_category exp_aft=expire_after frc_upd=force_update ic=icon json_attr_t=json_attributes_topic
json_attr_tpl=json_attributes_template o=origin obj_id=object_id ops=options opt=optimistic p=platform pl_avail=payload_available
pl_not_avail=payload_not_available pl_off=payload_off pl_on=payload_on pl_prs=payload_press pl_rst=payload_reset ret=retain
stat_cla=state_class stat_off=state_off stat_on=state_on stat_t=state_topic sug_dsp_prc=suggested_display_precision t=topic
uniq_id=unique_id unit_of_meas=unit_of_measurement val_tpl=value_template"""
SHORT_IN_DEVICE = """cns=connections cu=configuration_url ids=identifiers mf=manufacturer mdl=model mdl_id=model_id hw=hw_version
sw=sw_version sa=suggested_area sn=serial_number"""
SHORT_IN_ORIGIN = "sw=sw_version url=support_url"

# Each member with its rule: one in VALUES, or the words that are allowed. `!`: required.
ENTITY = """platform!=text unique_id!=full name=name qos=0|1|2 encoding=text enabled_by_default=flag entity_category=config|diagnostic
icon=full object_id=full availability=list availability_mode=all|any|latest json_attributes_topic=filter
json_attributes_template=template"""
READS = f"{ENTITY} value_template=template"
WRITES = f"{READS} state_topic=filter command_topic!=topic optimistic=flag retain=flag"
MEMBERS = {
    "configuration": """device!=object components!=object origin!=object availability=list availability_mode=all|any|latest
        payload_available=full payload_not_available=full state_topic=filter command_topic=topic qos=0|1|2 encoding=text""",
    "device": """identifiers=list connections=list name=text manufacturer=text model=text model_id=text hw_version=text sw_version=text
        serial_number=text suggested_area=text configuration_url=url""",
    "origin": "name!=full sw_version=full support_url=url",
    "availability": "topic!=filter payload_available=full payload_not_available=full",
    "switch": f"{WRITES} payload_on=full payload_off=full state_on=full state_off=full device_class=outlet|switch",
    "select": f"{WRITES} options!=list",
    "number": f"{WRITES} min=number max=number step=step mode=auto|box|slider unit_of_measurement=full payload_reset=full",
    "button": f"{ENTITY} command_topic!=topic payload_press=full retain=flag device_class=identify|restart|update",
    "sensor": f"""{READS} state_topic!=filter options=list device_class=enum|signal_strength unit_of_measurement=dB|dBm expire_after=step
        state_class=measurement|total|total_increasing force_update=flag suggested_display_precision=number entity_category=diagnostic""",
}
PLATFORMS = ["button", "number", "select", "sensor", "switch"]
DEFAULTS = {"qos": 0, "payload_on": "ON", "payload_off": "OFF", "payload_press": "PRESS", "payload_reset": "None", "min": 1, "max": 100}
SHARED = ["availability", "availability_mode", "command_topic", "state_topic"]
HIDDEN = "friendly_name state unique_id options state_class device_class unit_of_measurement icon min max step".split()
FILTERS = [f"homeassistant/{part}/{path}/config" for path in ("+", "+/+") for part in PLATFORMS]
FILTERS += ["homeassistant/device/+/config", "homeassistant/device/+/+/config", "dsmr/#", "tasmota/discovery/#"]
FOREIGN = {"cloudapp/QBUSMQTTGW/config": 0}
templates = ImmutableSandboxedEnvironment(undefined=StrictUndefined)
VALUES = {
    "text": lambda value: isinstance(value, (str, int, float)),
    "full": lambda value: isinstance(value, (str, int, float)) and value != "",
    "name": lambda value: value is None or isinstance(value, str),
    "flag": lambda value: isinstance(value, bool),
    "number": lambda value: isinstance(value, (int, float)),
    "step": lambda value: value >= 0.001,
    "list": lambda value: isinstance(value, list) and len(value) > 0,
    "object": lambda value: isinstance(value, dict),
    "template": lambda value: templates.parse(value) is not None,
    "url": lambda value: re.match("(https?|homeassistant)://[^/]", value) is not None,
    "filter": lambda value: re.fullmatch(r"([^+#/]*|\+)(/([^+#/]*|\+))*(/#)?", value or "##") is not None,
    "topic": lambda value: re.fullmatch("[^+#]+", value) is not None,
}
complaints = []


def complain(text):
    if text not in complaints:
        complaints.append(text)


def fits(rule, value):
    try:
        return VALUES[rule](value) if rule in VALUES else str(value) in rule.split("|")
    except (TypeError, TemplateError):
        return False


def keeps_rules(where, members, kind):
    """Complains of each rule that is broken."""
    rules = dict(pair.replace("!", "").split("=") for pair in MEMBERS[kind].split())
    has = members.get
    broken = [f"{name} is required" for name in re.findall(r"(\w+)!", MEMBERS[kind]) if name not in members]
    broken += [
        f"{name} must be {rules.get(name, 'left out')}: {json.dumps(value)}"
        for name, value in members.items()
        if name not in rules or not fits(rules[name], value)
    ]
    if kind == "device" and not has("identifiers") and not has("connections"):
        broken.append("identifiers or connections are required")
    if kind == "number" and not broken and has("min", 1) > has("max", 100):
        broken.append("min is above max")
    if kind == "sensor" and has("options") and (has("device_class") != "enum" or has("state_class") or has("unit_of_measurement")):
        broken.append("options are for the device class enum, without state_class and unit_of_measurement")
    for rule in broken:
        complain(f"{where}: {rule}")
    return not broken and all([keeps_rules(where, item, "availability") for item in has("availability", [])])


def expand(members, short=SHORT):
    full = dict(pair.split("=") for pair in short.split())
    return {full.get(name, name): value for name, value in members.items()}


class Entity:
    def __init__(self, platform):
        self.platform, self.config, self.value, self.attributes = platform, {}, None, {}
        self.available, self.latest, self.retained = {}, False, set()

    def topics(self):
        """Pairs of what a topic is for, and the topic."""
        topics = [(role, self.config.get(f"{role}_topic")) for role in ("state", "json_attributes")]
        return [pair for pair in topics if pair[1]] + [("availability", item["topic"]) for item in self.config.get("availability", [])]

    def take(self, role, topic, payload):
        config = self.config
        try:
            if role == "availability":
                item = next(item for item in config["availability"] if item["topic"] == topic)
                words = {item.get("payload_available", "online"): True, item.get("payload_not_available", "offline"): False}
                self.available[topic] = self.latest = words[payload]
            elif role == "state":
                self.value = self.read(self.render(config.get("value_template"), payload))
            else:
                members = json.loads(self.render(config.get("json_attributes_template"), payload))
                self.attributes = {name: value for name, value in members.items() if name not in HIDDEN}
        except (TemplateError, TypeError, ValueError, AttributeError, KeyError) as error:
            complain(f"{config['unique_id']}: {role} cannot be read: {payload}: {error}")

    def render(self, template, payload):
        try:
            known = {"value": payload, "value_json": json.loads(payload)}
        except ValueError:
            known = {"value": payload}
        return payload if template is None else templates.from_string(template).render(known).strip()

    def read(self, text):
        """The state that a text means, None if it is unknown."""
        has = self.config.get
        if text == (has("payload_reset") if self.platform == "number" else "None"):
            return None
        if self.platform == "switch":
            return {has("state_on", has("payload_on")): "on", has("state_off", has("payload_off")): "off"}[text]
        is_in_range = self.platform != "number" or has("min") <= float(text) <= has("max")
        is_number = has("state_class") is None or float(text) is not None
        if not (is_in_range and is_number and text in has("options", [text]) and 0 < len(text) < 256):
            raise ValueError(f"{text} is not allowed")
        return text

    def shown(self, is_connected=True):
        topics = [topic for role, topic in self.topics() if role == "availability"]
        known = [self.available.get(topic, False) for topic in topics]
        modes = {"all": all(known), "any": any(known), "latest": self.latest}
        name, device = self.config.get("name", f"MQTT {self.platform}"), self.config["device"].get("name")
        attributes = {"friendly_name": device if name is None else f"{device} {name}"}
        if not is_connected or (topics and not modes[self.config.get("availability_mode", "latest")]):
            return {"state": "unavailable", "attributes": attributes}
        if self.platform in ("switch", "select", "number") and (self.config.get("optimistic") or "state_topic" not in self.config):
            attributes["assumed_state"] = True
        return {"state": "unknown" if self.value is None else str(self.value), "attributes": {**self.attributes, **attributes}}


class Home:
    def __init__(self, registry, client=None, is_newer=False):
        # `registry`: the name of each entity by its unique id. `entities`: those that discovery has named since the start.
        self.registry, self.entities, self.client, self.is_newer = registry, {}, client, is_newer
        self.retained, self.wildcards, self.plain, self.awaited, self.last_change = set(), [], {}, [], 0.0
        self.is_connected, self.is_born = client is None, False

    def connected(self, code):
        if code in (4, 5, 134, 135):
            sys.exit(f"refused: {code}")
        self.is_connected, self.is_born, self.awaited = code == 0, False, []
        self.wildcards, self.plain = list(enumerate(FILTERS, 2)), {**FOREIGN, **self.topics()}
        for retained in [self.retained, *(entity.retained for entity in self.entities.values())]:
            retained.clear()

    def topics(self):
        return {topic: entity.config["qos"] for entity in self.entities.values() for _, topic in entity.topics()}

    def subscribed(self, codes):
        for name, code in zip(self.awaited, codes):
            if code >= 128 and name.startswith(("homeassistant/device/", "latchwork/")):
                complain(f"{name}: not granted")
        self.awaited = []

    def proceed(self):
        """One packet after the other's acknowledgement: wildcards one by one, then plain topics, then birth."""
        rest = time.monotonic() - self.last_change
        if not self.is_connected or self.awaited:
            return
        if self.wildcards:
            identifier, name = self.wildcards.pop(0)
            self.subscribe([(name, 0)], identifier)
        elif self.plain and rest > 0.1:
            topics = list(self.plain.items())
            self.plain = dict(topics[500:])
            self.subscribe(topics[:500], 1)
        elif not self.plain and not self.is_born and rest > 0.5:
            self.is_born = True
            self.client.publish("homeassistant/status", "online")

    def subscribe(self, filters, identifier):
        self.awaited, self.last_change = [name for name, _ in filters], time.monotonic()
        if not self.is_newer:
            return self.client.subscribe(filters)
        properties = Properties(PacketTypes.SUBSCRIBE)
        properties.SubscriptionIdentifier = identifier
        return self.client.subscribe([(name, mqtt.SubscribeOptions(qos)) for name, qos in filters], properties=properties)

    def take(self, topic, payload, is_retained=False, identifiers=()):
        """Of retained messages each subscription takes one for each topic."""
        if self.is_newer and not identifiers:
            complain(f"{topic}: no subscription identifier")
        if self.is_newer and any(at > 1 and not mqtt.topic_matches_sub(FILTERS[at - 2], topic) for at in identifiers):
            complain(f"{topic}: subscription identifiers {identifiers}")
        if topic.startswith("homeassistant/") and not (is_retained and topic in self.retained):
            self.discover(topic, payload)
        self.retained |= {topic} if is_retained else set()
        for entity in list(self.entities.values()):
            for pair in entity.topics():
                if pair[1] == topic and not (is_retained and pair in entity.retained):
                    entity.take(*pair, payload)
                    entity.retained |= {pair} if is_retained else set()

    def discover(self, topic, payload):
        self.last_change = time.monotonic()
        node = re.sub("^homeassistant/device/([a-zA-Z0-9_-]+)/config$", r"\1", topic)
        if payload == "":
            known = [key for key in self.entities if key[1] == node]
            for key in known:
                self.remove(key)
            return known or complain(f"{topic}: nothing to remove")
        try:
            config = expand(json.loads(payload))
            parts = {name: expand(part) for name, part in config["components"].items()}
            for holder in [config, *parts.values()]:
                if "availability" in holder:
                    holder["availability"] = [expand(item) for item in holder["availability"]]
            config["device"], config["origin"] = expand(config["device"], SHORT_IN_DEVICE), expand(config["origin"], SHORT_IN_ORIGIN)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            return complain(f"{topic}: is no configuration: {error!r}")
        members = {"configuration": config, "device": config["device"], "origin": config["origin"]}
        if not all([keeps_rules(topic, given, kind) for kind, given in members.items()]):
            return None
        for name, part in parts.items():
            platform = part.get("platform")
            if platform not in PLATFORMS:
                complain(f"{topic} {name}: platform must be {'|'.join(PLATFORMS)}: {json.dumps(platform)}")
            elif len(part) == 1:
                self.remove((platform, node, name))
            elif keeps_rules(f"{topic} {name}", part, platform):
                shared = {option: config[option] for option in SHARED if option in config and option in MEMBERS[platform]}
                self.add((platform, node, name), {**DEFAULTS, **shared, **part, "device": config["device"]})
        return None

    def add(self, key, config):
        unique_id = config["unique_id"]
        if any(other.config["unique_id"] == unique_id for at, other in self.entities.items() if at != key):
            return complain(f"{key[2]}: unique_id is taken: {unique_id}")
        entity = self.entities.setdefault(key, Entity(key[0]))
        former, entity.config = entity.topics(), config
        self.plain.update({pair[1]: config["qos"] for pair in entity.topics() if pair not in former})
        self.registry[unique_id] = entity.shown()["attributes"]["friendly_name"]
        return None

    def remove(self, key):
        if key not in self.entities:
            return
        before = self.topics()
        del self.registry[self.entities.pop(key).config["unique_id"]]
        unused = [topic for topic in before if topic not in self.topics()]
        self.plain = {topic: qos for topic, qos in self.plain.items() if topic not in unused}
        if unused and self.client is not None:
            self.client.unsubscribe(unused)

    def order(self, unique_id, service, value=None):
        entity = next(entity for entity in self.entities.values() if entity.config["unique_id"] == unique_id)
        config, shown = entity.config, entity.shown(self.is_connected)
        # Home Assistant sends nothing for it.
        if shown["state"] == "unavailable":
            return
        payloads = {"turn_on": config["payload_on"], "turn_off": config["payload_off"], "press": config["payload_press"]}
        self.client.publish(config["command_topic"], payloads.get(service, str(value)), config["qos"], config.get("retain", False))
        if service == "press" or "assumed_state" in shown["attributes"]:
            entity.value = {"turn_on": "on", "turn_off": "off", "press": time.ctime()}.get(service, value)

    def shown(self):
        entities = {unique_id: {"state": "unavailable", "attributes": {"friendly_name": name}} for unique_id, name in self.registry.items()}
        entities.update({entity.config["unique_id"]: entity.shown(self.is_connected) for entity in self.entities.values()})
        return json.dumps({"entities": entities, "complaints": complaints, "isReady": self.is_born and not self.plain and not self.awaited})


def run(setup):
    is_newer, orders = setup["version"] == "5", []
    client = mqtt.Client(protocol=mqtt.MQTTv5 if is_newer else mqtt.MQTTv311, transport="websockets")
    with open(setup["registry"], "a+") as file:
        file.seek(0)
        home = Home(json.loads(file.read() or "{}"), client, is_newer)
    client.username_pw_set(setup["username"], setup["password"])
    client.ws_set_options(path=setup["path"])
    client.will_set("homeassistant/status", "offline")
    codes = lambda given: [getattr(code, "value", code) for code in given]
    client.on_connect = lambda client, data, flags, code, *_: home.connected(*codes([code]))
    client.on_subscribe = lambda client, data, mid, granted, *_: home.subscribed(codes(granted))
    client.on_message = lambda client, data, message: home.take(
        *(message.topic, message.payload.decode(), message.retain),
        getattr(getattr(message, "properties", None), "SubscriptionIdentifier", []),
    )
    # Its last is that there are none any more.
    threading.Thread(target=lambda: orders.extend(chain(sys.stdin, ["null"])), daemon=True).start()
    client.connect("127.0.0.1", setup["port"], **({"clean_start": True} if is_newer else {}))
    last = ""
    while True:
        if client.loop(0.02) != mqtt.MQTT_ERR_SUCCESS:
            home.is_connected = False
            time.sleep(0.5)
            try:
                client.reconnect()
            except (OSError, mqtt.WebsocketConnectionError):
                pass
        home.proceed()
        while orders:
            order = json.loads(orders.pop(0))
            if order is None:
                with open(setup["registry"], "w") as file:
                    json.dump(home.registry, file)
                # Without DISCONNECT, so that the broker publishes the will.
                os._exit(0)
            home.order(**order)
        if home.shown() != last:
            last = home.shown()
            print(last, flush=True)


if sys.argv[1] == "--check":
    checked = Home({})
    for line in sys.stdin:
        checked.take(*json.loads(line))
    print(checked.shown())
else:
    run(json.loads(sys.argv[1]))
