"""Reads a `model.safetensors` of Isochrone with numpy alone; docs/formats.md describes the file.

    model = Model("runs/logs-atlas/model.safetensors")
    model.steps(states, goals), model.act(states, goals)  # for corresponding rows
"""
import json

import numpy as np

relu = lambda z: np.maximum(z, 0)
norm = lambda z: np.linalg.norm(z, axis=-1)
sphere = lambda z: np.sqrt(z.shape[-1]) * z / np.where(norm(z) > 0, norm(z), 1)[:, None]
cut = lambda z, *parts: z.reshape(len(z), *parts, -1)
beside = lambda *parts: np.concatenate([np.broadcast_to(z, (len(parts[0]), z.shape[-1])) for z in parts], -1)
gelu = lambda z: 0.5 * z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)))
ACTIVATIONS = {"identity": lambda z: z, "relu": relu, "gelu": gelu, "swish": lambda z: z / (1 + np.exp(-z))}
LAWS = {"tanh": np.tanh, "categorical": lambda z: np.eye(z.shape[-1])[z.argmax(-1)]}


def taker(flat):
    """A function that takes arrays of given shapes from a flat one, front to back."""
    rest = iter(flat)
    return lambda *shape: np.fromiter(rest, flat.dtype, int(np.prod(shape))).reshape(shape)


def network(take, shape, outputs, *inputs):
    z = beside(*inputs)
    for width in shape["hidden"]:
        z = ACTIVATIONS[shape["activation"]](z @ take(z.shape[1], width) + take(width))
        if shape["norm"] == "layer":
            centred, variance = z - z.mean(1, keepdims=True), z.var(1, keepdims=True)
            z = centred / np.sqrt(variance + 1e-6) * take(width) + take(width)
    return z @ take(z.shape[1], outputs) + take(outputs)


def head(take, h, x, y):
    if h["kind"] == "iqe":
        low, high = (cut(z, h["latent"] // h["group"]) for z in (x, y))
        low, high = (np.take_along_axis(z, np.argsort(low), -1) for z in (low, high))
        low[..., 1:] = np.maximum(low[..., 1:], np.maximum.accumulate(high, -1)[..., :-1])
        length, mix = relu(high - low).sum(-1), 1 / (1 + np.exp(-take(1)))
        return mix * length.mean(-1) + (1 - mix) * length.max(-1)
    if h["kind"] == "max":
        return relu(x - y).max(-1)
    if h["kind"] == "mrn":
        maxima, squares = np.moveaxis(cut(x - y, h["components"], 2), 2, 0)
        return (relu(maxima).max(-1) + norm(squares)).mean(-1)
    if h["kind"] == "pqe":
        groups = h["latent"] // h["group"]
        return (1 - np.exp(-cut(relu(x - y), groups).mean(-1))) @ np.logaddexp(0, take(groups))
    if h["kind"] == "wide-norm":
        weight = take(h["components"], h["size"], 2 * h["latent"]) ** 2
        return norm(beside(relu(x - y), relu(y - x)) @ weight.swapaxes(1, 2)).mean(0)
    if h["kind"] == "deep-norm":
        inner = take(h["layers"] - 1, h["units"], h["units"]) ** 2
        z, *added = (x - y) @ take(h["layers"], h["units"], h["latent"]).swapaxes(1, 2)
        for between, beyond in zip(inner, added):
            z = relu(z) @ between.T + beyond
        return relu(z).mean(-1)
    raise ValueError(f"unknown head `{h['kind']}`")


def distance(take, d, s, a, g, part, no_action):
    """Nats from s to g, as networks see them, for a stored action; both run through a network together."""
    if d["form"] == "several":
        return np.mean([distance(take, d["of"], s, a, g, part, no_action) for _ in range(d["members"])], 0)
    net = lambda outputs, *inputs: network(take, d["network"], outputs, *inputs)
    both, goals = np.concatenate([s, g]), np.concatenate([g, g])[:, part]
    encode = lambda *action: np.split(net(d["head"]["latent"], both, *action), 2)
    if d["form"] == "encoded":
        return head(take, d["head"], *encode(a)) / d["temperature"]
    if d["form"] == "stepped":
        projector = d.get("projector")
        z = both = net(projector["latent"] if projector else d["head"]["latent"], both)
        if projector:
            z = network(take, projector["network"], d["head"]["latent"], z)
        nats = head(take, d["head"], *np.split(z, 2)) * d["nats"]
        if d["dynamics"]:  # Between states they are not asked.
            network(take, d["dynamics"], both.shape[1], both, no_action)
        return nats
    if d["form"] == "paired":  # The networks of starts with actions come first; states do not need them.
        critic = lambda: (d["with_action"] and encode(no_action), head(take, d["head"], *encode()))[1]
        return np.max([critic() for _ in range(d["critics"])], 0) / d["scale"]
    if d["form"] == "scored":
        from_s, from_g = np.split(net(d["latent"], both, a), 2)
        return ((from_g - from_s) * net(d["latent"], g[:, part])).sum(-1) / d["temperature"]
    if d["form"] == "valued":
        if d["representation"]:
            goals = sphere(net(d["representation"], both, goals))
        states = [net(1, both, goals)[:, 0] for _ in range(d["state_values"])]
        pairs = [] if states else [net(1, both, a, goals)[:, 0] for _ in range(d["action_values"])]
        from_s, from_g = np.split(np.mean(states, 0) if states else np.min(pairs, 0), 2)
        if d["reading"] == "logit":
            return from_g - from_s
        rate = 1 - d["reading"]["steps"]["discount"]
        return -np.log(np.maximum(1 + rate * np.minimum(from_s, 0), 2.0**-23))
    raise ValueError(f"unknown form `{d['form']}`")


class Model:
    def __init__(self, path):
        raw = open(path, "rb").read()
        body = 8 + int.from_bytes(raw[:8], "little")
        header = json.loads(raw[8:body])
        facts = header.pop("__metadata__")
        if (facts["format"], facts["kind"]) != ("1", "model"):
            raise ValueError("not a model of format 1")
        numbers = lambda about: np.frombuffer(raw[body:][slice(*about["data_offsets"])], "<f4").astype(float)
        self.arrays = {name: numbers(about) for name, about in header.items()}
        self.shape = json.loads(facts["shape"])
        self.sight = {"features": {"kind": "none"}, "policy_goal": [], "critic_goal": "state"}
        self.sight.update(self.shape["normalization"])
        self.nats, self.policy = self.shape["distance"], self.shape["policy"]
        stored = self.arrays["stored_actions"]
        self.stored = stored.reshape(-1, self.shape["action_size"]) if len(stored) else np.zeros((1, 0))

    def seen(self, states):
        """What networks see of states, and the coordinates that each value depends on."""
        x, sight, f = np.asarray(states, float), self.sight, self.sight["features"]
        axes = [{axis} for axis in range(x.shape[1])]
        if f["kind"] == "ramps":
            ramps = (x[..., None] - np.linspace(f["from"], f["to"], f["count"])) / f["width"]
            return cut(np.tanh(ramps)), [axis for axis in axes for _ in range(f["count"])]
        z = (x - sight["shift"]) * sight["scale"]
        if f["kind"] == "none":
            return z, axes
        phase = x[:, f["axes"]] @ self.arrays["features.directions"].reshape(f["count"], -1).T
        waves = cut(np.stack([np.cos(phase), np.sin(phase)], -1))
        return beside(z, waves), axes + [set(f["axes"])] * waves.shape[1]

    def part(self, axes):
        """Which of the values of a goal policies see."""
        shown = set(self.sight["policy_goal"] or range(self.shape["state_size"]))
        return [needed <= shown for needed in axes]

    def steps(self, states, goals):
        (s, _), (g, axes), no_action = self.seen(states), self.seen(goals), np.zeros((1, self.shape["action_size"]))
        part = self.part(axes) if self.sight["critic_goal"] == "policy" else slice(None)
        nats = [distance(taker(self.arrays["distance"]), self.nats, s, a, g, part, no_action) for a in self.stored]
        return np.mean(nats, 0) / np.log(1 / self.shape["discount"])

    def act(self, states, goals):
        (s, _), (g, axes) = self.seen(states), self.seen(goals)
        g = g[:, self.part(axes)]
        take, p, size = taker(self.arrays["policy"]), self.policy, self.shape["action_size"]
        if p["levels"] == "two":
            g, p = sphere(network(take, p["high"]["network"], p["representation"], s, g)), p["low"]
        law = p["law"]["kind"]
        z = network(take, p["network"], size * (2 if law == "tanh" else 1), s, g)[:, :size]
        return LAWS[law](z) if law in LAWS else z.clip(-1, 1)
