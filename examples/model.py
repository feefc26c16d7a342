"""Reads a `model.safetensors` of Isochrone with numpy alone; docs/formats.md describes the file.

    model = Model("runs/logs-atlas/model.safetensors")
    model.steps(states, goals)  # learned steps between corresponding rows
    model.act(states, goals)    # the policy's action for each row
"""
import json

import numpy as np

ACTIVATIONS = {
    "identity": lambda z: z,
    "relu": lambda z: np.maximum(z, 0),
    "gelu": lambda z: 0.5 * z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))),
    "swish": lambda z: z / (1 + np.exp(-z)),
}
LAWS = {"tanh": np.tanh, "categorical": lambda x: np.eye(x.shape[-1])[x.argmax(-1)]}
relu = ACTIVATIONS["relu"]
norm = lambda x: np.linalg.norm(x, axis=-1)
sphere = lambda x: np.sqrt(x.shape[-1]) * x / np.where(norm(x) > 0, norm(x), 1)[:, None]


def taker(flat, at=0):
    """A function that takes arrays from a flat one, front to back."""
    def take(*shape):
        nonlocal at
        first, at = at, at + int(np.prod(shape))
        return flat[first:at].reshape(shape)
    return take


def network(take, shape, inputs, outputs):
    widths, layers = [inputs, *shape["hidden"], outputs], []
    for rows, columns in zip(widths, widths[1:]):
        layers.append([take(rows, columns), take(columns)])
        if len(layers) <= len(shape["hidden"]) and shape["norm"] == "layer":
            layers[-1] += [take(columns), take(columns)]

    def apply(*parts):
        x = np.concatenate([np.broadcast_to(part, (len(parts[0]), part.shape[-1])) for part in parts], axis=-1)
        for at, (weight, bias, *gain) in enumerate(layers):
            x = x @ weight + bias
            if at < len(layers) - 1:
                x = ACTIVATIONS[shape["activation"]](x)
            if gain:
                x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6) * gain[0] + gain[1]
        return x
    return apply


def head(take, shape):
    """A function from latent rows of starts and goals to their distance."""
    kind, latent = shape["kind"], shape["latent"]
    parts = lambda x, *cut: x.reshape(len(x), *cut, -1)
    if kind == "max":
        return lambda x, y: relu(x - y).max(-1)
    if kind == "mrn":
        def mrn(x, y):
            maxima, squares = np.moveaxis(parts(x - y, shape["components"], 2), 2, 0)
            return (relu(maxima).max(-1) + norm(squares)).mean(-1)
        return mrn
    if kind == "pqe":
        alpha = np.logaddexp(0, take(latent // shape["group"]))
        return lambda x, y: (1 - np.exp(-parts(relu(x - y), len(alpha)).mean(-1))) @ alpha
    if kind == "wide-norm":
        weight = take(shape["components"] * shape["size"], 2 * latent) ** 2
        both = lambda x, y: np.concatenate([relu(x - y), relu(y - x)], axis=-1)
        return lambda x, y: norm(parts(both(x, y) @ weight.T, shape["components"])).mean(-1)
    if kind == "deep-norm":
        layers, units = shape["layers"], shape["units"]
        inner, outer = take(layers - 1, units, units) ** 2, take(layers, units, latent)
        def deep_norm(x, y):
            unit = relu((x - y) @ outer[0].T)
            for between, beside in zip(inner, outer[1:]):
                unit = relu(unit @ between.T + (x - y) @ beside.T)
            return unit.mean(-1)
        return deep_norm
    if kind == "iqe":
        mix, groups = 1 / (1 + np.exp(-take(1))), latent // shape["group"]
        def iqe(x, y):
            order = np.argsort(parts(x, groups))
            low, high = (np.take_along_axis(parts(z, groups), order, -1) for z in (x, y))
            low[..., 1:] = np.maximum(low[..., 1:], np.maximum.accumulate(high, axis=-1)[..., :-1])
            length = relu(high - low).sum(-1)
            return mix * length.mean(-1) + (1 - mix) * length.max(-1)
        return iqe
    raise ValueError(f"unknown head `{kind}`")


class Model:
    def __init__(self, path):
        raw = open(path, "rb").read()
        size = int.from_bytes(raw[:8], "little")
        header, body = json.loads(raw[8 : 8 + size]), raw[8 + size :]
        facts = header.pop("__metadata__")
        if (facts["format"], facts["kind"]) != ("1", "model"):
            raise ValueError("not a model of format 1")
        numbers = lambda about: np.frombuffer(body[slice(*about["data_offsets"])], "<f4").astype(float)
        self.tensors = tensors = {name: numbers(about) for name, about in header.items()}
        self.shape = json.loads(facts["shape"])
        self.features = self.shape["normalization"].get("features", {"kind": "none"})
        if self.features["kind"] == "fourier":
            self.directions = tensors["features.directions"].reshape(self.features["count"], -1)
        self.width, self.actions = len(self.axes()), self.shape["action_size"]
        stored = tensors["stored_actions"]
        self.stored = stored.reshape(-1, self.actions) if len(stored) else np.zeros((1, 0))
        self.nats = self.shape["distance"] and self.distance(taker(tensors["distance"]), self.shape["distance"])
        self.policy = self.shape["policy"] and self.actor(taker(tensors["policy"]), self.shape["policy"])

    def axes(self):
        """The coordinates that each value depends on which networks see of a state."""
        each, features = [{axis} for axis in range(self.shape["state_size"])], self.features
        if features["kind"] == "ramps":
            return [axis for axis in each for _ in range(features["count"])]
        return each + [set(features["axes"])] * 2 * features["count"] if features["kind"] == "fourier" else each

    def seen(self, states):
        """What networks see of states."""
        states, about, features = np.asarray(states, float), self.shape["normalization"], self.features
        scaled = (states - about["shift"]) * about["scale"]
        if features["kind"] == "ramps":
            centres = np.linspace(features["from"], features["to"], features["count"])
            return np.tanh((states[..., None] - centres) / features["width"]).reshape(len(states), -1)
        if features["kind"] == "fourier":
            phase = states[:, features["axes"]] @ self.directions.T
            waves = np.stack([np.cos(phase), np.sin(phase)], axis=-1).reshape(len(states), -1)
            return np.concatenate([scaled, waves], axis=-1)
        return scaled

    def goal_places(self):
        """The places, within what networks see of a goal, that a policy sees."""
        shown = set(self.shape["normalization"].get("policy_goal") or range(self.shape["state_size"]))
        return [place for place, axes in enumerate(self.axes()) if axes <= shown]

    def distance(self, take, shape):
        """A function from what networks see of starts and goals to nats."""
        if shape["form"] == "several":
            members = [self.distance(take, shape["of"]) for _ in range(shape["members"])]
            return lambda s, g: np.mean([nats(s, g) for nats in members], axis=0)
        form, net, width, actions = shape["form"], shape["network"], self.width, self.actions
        over_actions = lambda nats: lambda s, g: np.mean([nats(s, a, g) for a in self.stored], axis=0)
        if form == "encoded":
            encode = network(take, net, width + actions * shape["with_action"], shape["head"]["latent"])
            between = head(take, shape["head"])
            return over_actions(lambda s, a, g: between(encode(s, a), encode(g, a)) / shape["temperature"])
        if form == "paired":
            critics = []
            for _ in range(shape["critics"]):
                if shape["with_action"]:  # The encoder of starts with their actions.
                    network(take, net, width + actions, shape["head"]["latent"])
                critics.append((network(take, net, width, shape["head"]["latent"]), head(take, shape["head"])))
            return lambda s, g: np.max([between(encode(s), encode(g)) for encode, between in critics], axis=0) / shape["scale"]
        if form == "stepped":
            projector, last = shape.get("projector"), shape["head"]["latent"]
            latent = projector["latent"] if projector else last
            encode = network(take, net, width, latent)
            project = network(take, projector["network"], latent, last) if projector else lambda z: z
            between = head(take, shape["head"])
            if shape["dynamics"]:  # Between states they are not asked.
                network(take, shape["dynamics"], latent + actions, latent)
            return lambda s, g: between(project(encode(s)), project(encode(g))) * shape["nats"]
        if form == "scored":
            start = network(take, net, width + actions * shape["with_action"], shape["latent"])
            goal = network(take, net, width, shape["latent"])
            return over_actions(lambda s, a, g: ((start(g, a) - start(s, a)) * goal(g)).sum(-1) / shape["temperature"])
        if form == "valued":
            return over_actions(self.valued(take, shape))
        raise ValueError(f"unknown form `{form}`")

    def valued(self, take, shape):
        net, width, goals = shape["network"], self.width, shape["representation"] or self.width
        represent = network(take, net, 2 * width, goals) if shape["representation"] else None
        states = [network(take, net, width + goals, 1) for _ in range(shape["state_values"])]
        pairs = [network(take, net, width + self.actions + goals, 1) for _ in range(shape["action_values"])]

        def value(s, a, g):
            goal = sphere(represent(s, g)) if represent else g
            if states:
                return np.mean([critic(s, goal)[:, 0] for critic in states], axis=0)
            return np.min([critic(s, a, goal)[:, 0] for critic in pairs], axis=0)

        def nats(s, a, g):
            if shape["reading"] == "logit":
                return value(g, a, g) - value(s, a, g)
            rate = 1 - shape["reading"]["steps"]["discount"]
            return -np.log(np.maximum(1 + rate * np.minimum(value(s, a, g), 0), np.finfo("f4").eps))
        return nats

    def actor(self, take, shape):
        """A function from what networks see of states and goals to actions."""
        def policy(shape, inputs, outputs):
            law = shape["law"]["kind"]
            apply = network(take, shape["network"], inputs, outputs * (2 if law == "tanh" else 1))
            act = LAWS.get(law, lambda x: np.clip(x, -1, 1))
            return apply, lambda *parts: act(apply(*parts)[:, :outputs])

        goal = len(self.goal_places())
        if shape["levels"] == "one":
            return policy(shape, self.width + goal, self.actions)[1]
        high = policy(shape["high"], self.width + goal, shape["representation"])[0]
        low = policy(shape["low"], self.width + shape["representation"], self.actions)[1]
        return lambda s, g: low(s, sphere(high(s, g)))

    def steps(self, states, goals):
        return self.nats(self.seen(states), self.seen(goals)) / np.log(1 / self.shape["discount"])

    def act(self, states, goals):
        return self.policy(self.seen(states), self.seen(goals)[:, self.goal_places()])
