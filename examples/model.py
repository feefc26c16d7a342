"""Reads a `model.safetensors` of Isochrone with numpy alone; docs/formats.md describes the file.

    model = Model("runs/logs-atlas/model.safetensors")
    model.steps(states, goals)  # learned steps between corresponding rows
    model.act(states, goals)    # the policy's action for each row
"""
import json

import numpy as np


def relu(x):
    return np.maximum(x, 0)


def sphere(x):
    length = np.linalg.norm(x, axis=-1, keepdims=True)
    return np.sqrt(x.shape[-1]) * x / np.where(length > 0, length, 1)


ACTIVATIONS = {
    "identity": lambda z: z,
    "relu": relu,
    "gelu": lambda z: 0.5 * z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))),
    "swish": lambda z: z / (1 + np.exp(-z)),
}


class Numbers:
    """A flat tensor, taken from front to back."""

    def __init__(self, flat):
        self.flat, self.at = flat, 0

    def take(self, *shape):
        first, self.at = self.at, self.at + int(np.prod(shape))
        return self.flat[first : self.at].reshape(shape)

    def network(self, shape, inputs, outputs):
        widths, layers = [inputs, *shape["hidden"], outputs], []
        for at, (rows, columns) in enumerate(zip(widths, widths[1:])):
            hidden = at < len(widths) - 2
            layer = [self.take(rows, columns), self.take(columns), hidden]
            normed = hidden and shape["norm"] == "layer"
            layers.append(layer + [(self.take(columns), self.take(columns)) if normed else None])

        def apply(*parts):
            x = np.concatenate(parts, axis=-1)
            for weight, bias, hidden, norm in layers:
                x = x @ weight + bias
                x = ACTIVATIONS[shape["activation"]](x) if hidden else x
                if norm:
                    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)
                    x = x * norm[0] + norm[1]
            return x

        return apply

    def head(self, shape):
        kind, latent = shape["kind"], shape["latent"]
        if kind == "mrn":
            def mrn(x, y):
                parts = (x - y).reshape(len(x), shape["components"], 2, -1)
                return (relu(parts[:, :, 0]).max(-1) + np.linalg.norm(parts[:, :, 1], axis=-1)).mean(-1)
            return mrn
        if kind == "max":
            return lambda x, y: relu(x - y).max(-1)
        if kind == "iqe":
            mix, group = 1 / (1 + np.exp(-self.take(1))), shape["group"]
            def iqe(x, y):
                x, y = x.reshape(len(x), -1, group), y.reshape(len(y), -1, group)
                order = np.argsort(x, axis=-1)
                low, high = (np.take_along_axis(z, order, -1) for z in (x, y))
                reach = np.maximum.accumulate(high, axis=-1)[..., :-1]
                low[..., 1:] = np.maximum(low[..., 1:], reach)
                length = relu(high - low).sum(-1)
                return mix * length.mean(-1) + (1 - mix) * length.max(-1)
            return iqe
        if kind == "pqe":
            alpha = np.logaddexp(0, self.take(latent // shape["group"]))
            return lambda x, y: (alpha * (1 - np.exp(-relu(x - y).reshape(len(x), len(alpha), -1).mean(-1)))).sum(-1)
        if kind == "wide-norm":
            weight = self.take(shape["components"] * shape["size"], 2 * latent) ** 2
            def wide(x, y):
                image = np.concatenate([relu(x - y), relu(y - x)], axis=-1) @ weight.T
                return np.linalg.norm(image.reshape(len(x), shape["components"], -1), axis=-1).mean(-1)
            return wide
        if kind == "deep-norm":
            layers, units = shape["layers"], shape["units"]
            inner, outer = self.take(layers - 1, units, units) ** 2, self.take(layers, units, latent)
            def deep(x, y):
                unit = relu((x - y) @ outer[0].T)
                for w, u in zip(inner, outer[1:]):
                    unit = relu(unit @ w.T + (x - y) @ u.T)
                return unit.mean(-1)
            return deep
        raise ValueError(f"unknown head `{kind}`")


class Model:
    def __init__(self, path):
        raw = open(path, "rb").read()
        size = int.from_bytes(raw[:8], "little")
        header = json.loads(raw[8 : 8 + size])
        facts = header.pop("__metadata__")
        if (facts["format"], facts["kind"]) != ("1", "model"):
            raise ValueError("not a model of format 1")
        self.tensors = {
            name: np.frombuffer(raw, "<f4", np.prod(about["shape"], dtype=int), 8 + size + about["data_offsets"][0]).astype(float)
            for name, about in header.items()
        }
        self.shape = json.loads(facts["shape"])
        self.features = self.shape["normalization"].get("features", {"kind": "none"})
        if self.features["kind"] == "fourier" and "features.directions" not in self.tensors:
            raise ValueError("an older file without the directions of its Fourier features; save it again")
        self.width = self.seen(np.zeros((1, self.shape["state_size"]))).shape[-1]
        self.nats = self.shape["distance"] and self.distance(self.shape["distance"])
        self.policy = self.shape["policy"] and self.actor(self.shape["policy"])

    def seen(self, states):
        """What networks see of states."""
        states, about, features = np.asarray(states, float), self.shape["normalization"], self.features
        scaled = (states - np.array(about["shift"])) * np.array(about["scale"])
        if features["kind"] == "ramps":
            centres = np.linspace(features["from"], features["to"], features["count"])
            return np.tanh((states[..., None] - centres) / features["width"]).reshape(len(states), -1)
        if features["kind"] == "fourier":
            directions = self.tensors["features.directions"].reshape(features["count"], -1)
            phase = states[:, features["axes"]] @ directions.T
            waves = np.stack([np.cos(phase), np.sin(phase)], axis=-1).reshape(len(states), -1)
            return np.concatenate([scaled, waves], axis=-1)
        return scaled

    def goal_places(self):
        """The places, within what networks see, that a policy sees of a goal."""
        axes, features = self.shape["normalization"].get("policy_goal"), self.features
        if not axes:
            return list(range(self.width))
        axes, size = [axis for axis in range(self.shape["state_size"]) if axis in axes], self.shape["state_size"]
        if features["kind"] == "ramps":
            count = features["count"]
            return [place for axis in axes for place in range(axis * count, (axis + 1) * count)]
        waves = features["kind"] == "fourier" and set(features["axes"]) <= set(axes)
        return axes + list(range(size, size + 2 * features["count"] if waves else size))

    def stored(self, rows):
        """Each stored action beside every row, or once nothing."""
        actions = self.tensors["stored_actions"]
        actions = actions.reshape(-1, self.shape["action_size"]) if len(actions) else np.zeros((1, 0))
        return [np.tile(action, (rows, 1)) for action in actions]

    def distance(self, shape):
        """A function from what networks see of starts and goals to nats."""
        numbers, form, width, action = Numbers(self.tensors["distance"]), shape["form"], self.width, self.shape["action_size"]
        net = shape["network"]
        if form == "encoded":
            latent = shape["head"]["latent"]
            encode = numbers.network(net, width + action * shape["with_action"], latent)
            head = numbers.head(shape["head"])
            return lambda s, g: np.mean([head(encode(s, a), encode(g, a)) for a in self.stored(len(s))], axis=0) / shape["temperature"]
        if form == "paired":
            latent, critics = shape["head"]["latent"], []
            for _ in range(shape["critics"]):
                if shape["with_action"]:
                    numbers.network(net, width + action, latent)
                critics.append((numbers.network(net, width, latent), numbers.head(shape["head"])))
            return lambda s, g: np.max([head(encode(s), encode(g)) for encode, head in critics], axis=0) / shape["scale"]
        if form == "stepped":
            encode, head = numbers.network(net, width, shape["head"]["latent"]), numbers.head(shape["head"])
            return lambda s, g: head(encode(s), encode(g)) * shape["nats"]
        if form == "scored":
            start = numbers.network(net, width + action * shape["with_action"], shape["latent"])
            goal = numbers.network(net, width, shape["latent"])
            score = lambda s, a, g: (start(s, a) * goal(g)).sum(-1) / shape["temperature"]
            return lambda s, g: np.mean([score(g, a, g) - score(s, a, g) for a in self.stored(len(s))], axis=0)
        if form == "valued":
            return self.valued(numbers, shape)
        raise ValueError(f"unknown form `{form}`")

    def valued(self, numbers, shape):
        net, width, action, size = shape["network"], self.width, self.shape["action_size"], shape["representation"]
        represent = numbers.network(net, 2 * width, size) if size else None
        states = [numbers.network(net, width + (size or width), 1) for _ in range(shape["state_values"])]
        actions = [numbers.network(net, width + action + (size or width), 1) for _ in range(shape["action_values"])]

        def value(s, a, g):
            goal = sphere(represent(s, g)) if size else g
            if states:
                return np.mean([critic(s, goal)[:, 0] for critic in states], axis=0)
            return np.min([critic(s, a, goal)[:, 0] for critic in actions], axis=0)

        def nats(s, a, g):
            if shape["reading"] == "logit":
                return value(g, a, g) - value(s, a, g)
            rate = 1 - shape["reading"]["steps"]["discount"]
            return -np.log(np.maximum(1 + rate * np.minimum(value(s, a, g), 0), np.finfo("f4").eps))

        return lambda s, g: np.mean([nats(s, a, g) for a in self.stored(len(s))], axis=0)

    def actor(self, shape):
        """A function from what networks see of states and goals to actions."""
        numbers, goal = Numbers(self.tensors["policy"]), len(self.goal_places())

        def policy(shape, inputs, outputs):
            law = shape["law"]["kind"]
            apply = numbers.network(shape["network"], inputs, outputs * (2 if law == "tanh" else 1))
            act = {
                "tanh": lambda x: np.tanh(x[:, :outputs]),
                "categorical": lambda x: np.eye(outputs)[x.argmax(-1)],
            }.get(law, lambda x: np.clip(x, -1, 1))
            return apply, lambda *parts: act(apply(*parts))

        if shape["levels"] == "one":
            return policy(shape, self.width + goal, self.shape["action_size"])[1]
        high = policy(shape["high"], self.width + goal, shape["representation"])[0]
        low = policy(shape["low"], self.width + shape["representation"], self.shape["action_size"])[1]
        return lambda s, g: low(s, sphere(high(s, g)))

    def steps(self, states, goals):
        return self.nats(self.seen(states), self.seen(goals)) / np.log(1 / self.shape["discount"])

    def act(self, states, goals):
        return self.policy(self.seen(states), self.seen(goals)[:, self.goal_places()])
