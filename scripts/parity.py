#!/usr/bin/env python3
"""Losses and gradients of every learner, computed a second time from the formulas, in JAX and float64.

    python -m venv venv && venv/bin/pip install jax
    venv/bin/python scripts/parity.py

writes crates/isochrone/tests/parity/NAME.json, which crates/isochrone/tests/learners/parity.rs compares with the
library. Nothing is exchanged but names: parameters and batch columns are filled on both sides by one
formula of (name, index), see `numbers`. An arena is one flat vector; networks take their parameters from
it in the order they are built: weight (inputs x outputs), bias and, with layer norm, gain and shift.

A new learner is one function that builds its networks, declares its passes with `descend`, and stands in
LEARNERS beside its cases. A column is named after what it holds: `state start`, `action future`,
`permuted future 0`, `noisy future`, `reached next mixed0`; goals of mixed origin are numbered in the order they appear.
"""

import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)

STATE, ACTION, BATCH = 3, 2, 12
DISCOUNT = 0.9
STEPS = 100
OUT = pathlib.Path(__file__).parent.parent / "crates/isochrone/tests/parity"
# Settings of every case; a case's own come after.
SMALL = f"discount={DISCOUNT} train.steps={STEPS} algorithm.policy.network.hidden=[5]"
NETWORK = "algorithm.network.hidden=[6]"
HEAD = "algorithm.head={kind='mrn',latent=8,components=1}"
CLONING = 0.03

hold = jax.lax.stop_gradient
relu = jax.nn.relu


def numbers(name, count):
    """`count` numbers between -1 and 1 that both sides agree on, exact in 32 bits."""
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = ((seed ^ byte) * 0x100000001B3) % 2**64
    with np.errstate(over="ignore"):
        x = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = x ^ (x >> np.uint64(31))
    return (x >> np.uint64(40)).astype(np.float64) / 2**23 - 1.0


def column(name, width):
    """The numbers of a batch column, rows x width."""
    raw = numbers(name, BATCH * width).reshape(BATCH, width)
    if name == "gap next":
        return jnp.ones((BATCH, 1))
    if name.startswith("gap"):
        return jnp.asarray(np.floor(raw * 2 + 3))
    if name.startswith("reached"):
        return jnp.asarray(np.where(raw > 0, 1.0, 0.0))
    return jnp.asarray(raw)


def state(rows):
    return column(f"state {rows}", STATE)


def action(rows):
    return column(f"action {rows}", ACTION)


class Arena:
    """One flat vector of parameters, handed out from its beginning."""

    def __init__(self, flat):
        self.flat, self.used = flat, 0

    def take(self, *shape):
        count = int(np.prod(shape))
        self.used += count
        return self.flat[self.used - count : self.used].reshape(shape)

    def mlp(self, inputs, outputs, hidden=(6,), activation=relu, norm=False):
        layers = []
        widths = [inputs, *hidden, outputs]
        for at, (a, b) in enumerate(zip(widths, widths[1:])):
            weight, bias = self.take(a, b), self.take(1, b)
            affine = (self.take(1, b), self.take(1, b)) if norm and at < len(hidden) else None
            layers.append((weight, bias, affine))

        def apply(*parts):
            x = jnp.concatenate(parts, axis=-1)
            for at, (weight, bias, affine) in enumerate(layers):
                x = x @ weight + bias
                if at < len(hidden):
                    x = activation(x)
                if affine:
                    mean = x.mean(-1, keepdims=True)
                    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
                    x = (x - mean) / jnp.sqrt(variance + 1e-6) * affine[0] + affine[1]
            return x

        return apply


class Update:
    """The arenas and passes of one update."""

    def __init__(self, flats):
        self.flats, self.arenas, self.passes = flats, {}, {}

    def arena(self, name):
        self.arenas[name] = Arena(self.flats[name] if name in self.flats else first(name))
        return self.arenas[name]

    def descend(self, name, loss, *arenas):
        self.passes[name] = (loss, arenas)


def first(name, count=4000):
    return jnp.asarray(numbers(f"parameters {name}", count))


# Heads: from latent vectors x and y, broadcast against each other, to distances.


def mrn(components):
    def distance(x, y):
        d = jnp.stack(jnp.split(x - y, components, axis=-1), axis=-2)
        v, u = jnp.split(d, 2, axis=-1)
        square = (u**2).sum(-1)
        root = jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1.0)), 0.0)
        return (root + relu(v).max(-1)).mean(-1)

    return distance


def maximum(x, y):
    return relu(x - y).max(-1)


def iqe(arena, group):
    alpha = jax.nn.sigmoid(arena.take(1)[0])

    def distance(x, y):
        x, y = jnp.broadcast_arrays(x, y)
        x, y = (z.reshape(*z.shape[:-1], -1, group) for z in (x, y))
        order = jnp.argsort(x, axis=-1)
        low = jnp.take_along_axis(x, order, -1)
        high = jnp.maximum(low, jnp.take_along_axis(y, order, -1))
        length, end = 0.0, low[..., 0]
        for at in range(group):
            length = length + relu(high[..., at] - jnp.maximum(low[..., at], end))
            end = jnp.maximum(end, high[..., at])
        return alpha * length.mean(-1) + (1 - alpha) * length.max(-1)

    return distance


def pqe(arena, latent, group):
    alpha = jax.nn.softplus(arena.take(latent // group))

    def distance(x, y):
        d = relu(x - y)
        d = d.reshape(*d.shape[:-1], -1, group)
        return (alpha * (1 - jnp.exp(-d.mean(-1)))).sum(-1)

    return distance


def wide_norm(arena, latent, components, size):
    weight = arena.take(components, size, 2 * latent) ** 2

    def distance(x, y):
        d = x - y
        both = jnp.concatenate([relu(d), relu(-d)], -1)
        image = jnp.einsum("cso,...o->...cs", weight, both)
        return jnp.sqrt((image**2).sum(-1)).mean(-1)

    return distance


def deep_norm(arena, latent, layers, units):
    inner = arena.take(layers - 1, units, units) ** 2
    outer = arena.take(layers, units, latent)

    def distance(x, y):
        d = x - y
        h = relu(d @ outer[0].T)
        for at in range(1, layers):
            h = relu(h @ inner[at - 1].T + d @ outer[at].T)
        return h.mean(-1)

    return distance


def head_of(arena, kind):
    return {
        "mrn": lambda: mrn(1),
        "mrn-2": lambda: mrn(2),
        "max": lambda: maximum,
        "iqe": lambda: iqe(arena, 4),
        "pqe": lambda: pqe(arena, 8, 4),
        "wide-norm": lambda: wide_norm(arena, 8, 2, 3),
        "deep-norm": lambda: deep_norm(arena, 8, 3, 4),
    }[kind]()


HEADS = {
    "mrn-2": "algorithm.head={kind='mrn',latent=8,components=2}",
    "max": "algorithm.head={kind='max',latent=8}",
    "iqe": "algorithm.head={kind='iqe',latent=8,group=4}",
    "pqe": "algorithm.head={kind='pqe',latent=8,group=4}",
    "wide-norm": "algorithm.head={kind='wide-norm',latent=8,components=2,size=3}",
    "deep-norm": "algorithm.head={kind='deep-norm',latent=8,layers=3,units=4}",
}


def pairs(head, x, y):
    return head(x[:, None], y[None])


# Contrast of a batch's pairs.


def contrast(logits, directions):
    own = jnp.diagonal(logits)
    goals, starts = (jax.nn.logsumexp(logits, axis=axis) for axis in (1, 0))
    return {
        "symmetric": lambda: (goals - own).mean() + (starts - own).mean(),
        "forward": lambda: (goals - own).mean() + 0.01 * (goals**2).mean(),
        "forward-free": lambda: (goals - own).mean(),
        "backward": lambda: (starts - own).mean(),
        "binary": lambda: (jax.nn.softplus(logits) - jnp.eye(BATCH) * logits).mean(),
    }[directions]()


# Policies.


class Policy:
    """A law of actions; `act` is the mean held to its bounds, or a sample."""

    def __init__(self, update, law="constant", inputs=2 * STATE, outputs=ACTION, arena=None):
        arena = arena or update.arena("policy")
        self.law, self.outputs, self.noises = law, outputs, 0
        self.network = arena.mlp(inputs, 2 * outputs if law == "tanh" else outputs, (5,))

    def statistics(self, *inputs):
        out = self.network(*inputs)
        if self.law == "tanh":
            mean, log = jnp.split(out, 2, -1)
            return mean, jnp.clip(log, -5.0, 2.0)
        return out, None

    def act(self, *inputs):
        mean, log = self.statistics(*inputs)
        if self.law == "tanh":
            noise = column(f"noise {self.noises}", self.outputs)
            self.noises += 1
            return jnp.tanh(mean + jnp.exp(log) * noise)
        if self.law == "categorical":
            return jax.nn.one_hot(jnp.argmax(mean, -1), self.outputs)
        return jnp.clip(mean, -1.0, 1.0)

    def log_likelihood(self, a, *inputs):
        mean, log = self.statistics(*inputs)
        half = 0.5 * jnp.log(2 * jnp.pi)
        if self.law == "tanh":
            a = jnp.clip(a, -(1 - 1e-5), 1 - 1e-5)
            z = (jnp.arctanh(a) - mean) / jnp.exp(log)
            return (-0.5 * z**2 - log - half - jnp.log(1 - a**2)).sum(-1)
        if self.law == "categorical":
            return (a * jax.nn.log_softmax(mean)).sum(-1)
        return (-0.5 * (a - mean) ** 2 - half).sum(-1)


def weighted(log_likelihood, advantage, beta, standardize):
    """-mean sg(w) log pi, w = min(exp(beta A), 100)."""
    if standardize:
        advantage = (advantage - advantage.mean()) / (jnp.std(advantage) + 1e-6)
    w = jnp.minimum(jnp.exp(beta * advantage), 100.0)
    if standardize:
        w = w / w.mean()
    return -(hold(w) * log_likelihood).mean()


def extract(update, policy, goal, after=None, before=None, **choices):
    """The policy's pass. `after(a)` is the distance from (s, a) to the goals, `before(s)` from s."""
    how = choices.get("extraction", "awr")
    if how == "none":
        return
    s, a, g = state("start"), action("start"), state(goal)
    if how == "awr":
        if not after or choices.get("successor"):
            horizon = choices.get("horizon", 1)
            later = state("next" if horizon == 1 else "ahead0")
            advantage = (before(s) - before(later)) / horizon
        elif choices.get("baseline") == "value":
            advantage = choices["value"](s) - after(a)
        elif choices.get("baseline") == "data":
            others = [after(column(f"permuted start {m}", ACTION)) for m in range(4)]
            advantage = sum(others) / 4 - after(a)
        else:
            advantage = after(policy.act(s, g)) - after(a)
        likely = policy.log_likelihood(a, s, g)
        limit = choices.get("limit", jnp.inf)
        advantage = jnp.clip(advantage, -limit, limit)
        loss = weighted(likely, advantage, *choices.get("awr", STANDARDIZED))
    else:
        d = after(policy.act(s, g))
        scale = {
            "magnitude": jnp.abs(d).mean() + 1e-6,
            "spread": jnp.abs(d - d.mean()).mean() + 1e-6,
            "unit": 1.0,
        }[choices.get("scale", "magnitude")]
        own = state("future") if choices.get("cloning_goals") == "future" else g
        loss = d.mean() / hold(scale) - CLONING * policy.log_likelihood(a, s, own).mean()
    update.descend("policy", loss, "policy")


# beta, and whether advantages are standardized over the batch.
STANDARDIZED, RAW = (3.0, True), (2.0, False)


def extraction(choices):
    """The settings of an extraction, written out: a changed default changes no case."""
    how = choices.get("extraction", "awr")
    if how == "none":
        return "algorithm.extraction.name=none"
    if how == "awr":
        beta, standardize = choices.get("awr", STANDARDIZED)
        inner = f"inverse_temperature={beta},standardize='{'batch' if standardize else 'none'}'"
        inner += f",baseline='{choices.get('baseline', 'policy')}'"
        for key in ("limit", "horizon"):
            inner += f",{key}={choices[key]}" if key in choices else ""
    else:
        inner = f"cloning_weight={CLONING},scale='{choices.get('scale', 'magnitude')}'"
        inner += f",cloning_goals='{choices.get('cloning_goals', 'same')}'"
    return f"algorithm.extraction={{name='{how}',{inner}}}"


# Learners, from their formulas.


def numbered(name, member):
    """The arena of one of several networks of a kind."""
    return name if member == 0 else f"{name}{member + 1}"


def farthest(answers):
    """What the most cautious of several critics says; none if they cannot answer."""
    return None if None in answers else lambda *a: jnp.stack([answer(*a) for answer in answers]).max(0)


def encoded(update, choices, member=0):
    """One encoder of (s, a) or s, and its quasimetric."""
    arena = update.arena(numbered("distance", member))
    with_action = not choices.get("state_critic")
    shape = choices.get("network", {})
    network = arena.mlp(STATE + ACTION if with_action else STATE, 8, **shape)
    head = head_of(arena, choices.get("head", "mrn"))

    def encode(s, a):
        return network(s, a) if with_action else network(s)

    return encode, head, with_action


def beside(choices, rows):
    """The action beside a goal."""
    kind = choices.get("goal_action", "permuted")
    return {
        "permuted": lambda: column(f"permuted {rows} 0", ACTION),
        "rolled": lambda: column(f"rolled {rows}", ACTION),
        "taken": lambda: action(rows),
    }[kind]()


def placed(choices, rows):
    """The states of a contrastive pair."""
    return column(f"noisy {rows}", STATE) if choices.get("noisy") else state(rows)


def held_below_elapsed(encode, head, choices, temperature):
    """The weighted mean relu(d - k ln(1 / gamma))^2 over recorded ways of k steps, d in nats."""
    if "bound" not in choices:
        return 0.0
    d = head(encode(state("start"), action("start")), encode(state("future"), action("future")))
    elapsed = column("gap future", 1)[:, 0] * -jnp.log(DISCOUNT)
    return choices["bound"] * (relu(d / temperature - elapsed) ** 2).mean()


def extract_encoded(update, members, choices):
    policy = Policy(update, choices.get("law", "constant"))
    s, goal = state("start"), beside(choices, "mixed0")

    def answers(encode, head, with_action):
        ends = encode(state("mixed0"), goal)
        after = (lambda a: head(encode(s, a), ends)) if with_action else None
        return after, lambda s: head(encode(s, None), ends)

    after, before = (farthest(each) for each in zip(*(answers(*member) for member in members)))
    extract(update, policy, "mixed0", after, before, **choices)


def cmd1(update, **choices):
    count = choices.get("critics", 1)
    parts = [cmd1_critic(update, choices, member) for member in range(count)]
    members, losses, moved = zip(*parts)
    update.descend("critic", sum(losses), *sum(moved, []))
    extract_encoded(update, members, choices)


def cmd1_critic(update, choices, member):
    encode, head, with_action = encoded(update, choices, member)
    variant = choices.get("variant", "symmetric")
    temperature = choices.get("temperature", 1.0)
    starts = encode(placed(choices, "start"), action("start"))
    ends = encode(placed(choices, "future"), beside(choices, "future"))
    f = -pairs(head, starts, ends)
    moved = [numbered("distance", member)]
    if variant in ("symmetric", "forward", "forward-free"):
        moved.append(numbered("potential", member))
        potential = update.arena(moved[-1]).mlp(STATE, 1, **choices.get("network", {}))
        f = f + potential(placed(choices, "future")).T
    directions = "symmetric" if variant == "no-potential" else variant
    loss = contrast(f / temperature, directions)
    loss = loss + held_below_elapsed(encode, head, choices, temperature)
    return (encode, head, with_action), loss, moved


def scored(update, with_action=True, names=("start_encoder", "goal_encoder")):
    """phi(s, a) and psi(g)."""
    phi = update.arena(names[0]).mlp(STATE + ACTION if with_action else STATE, 8)
    psi = update.arena(names[1]).mlp(STATE, 8)
    return (lambda s, a: phi(s, a) if with_action else phi(s)), psi


def unit(x):
    return x / jnp.sqrt((x**2).sum(-1, keepdims=True))


def cmd2(update, **choices):
    members = [cmd2_member(update, choices, member) for member in range(choices.get("critics", 1))]
    extract_encoded(update, [member for member, _ in members], choices)
    for name in members[0][1]:
        losses, arenas = zip(*(passes[name] for _, passes in members))
        update.descend(name, sum(losses), *sum(arenas, []))


def cmd2_member(update, choices, member):
    encode, head, with_action = encoded(update, choices, member)
    names = [numbered(name, member) for name in ("start_encoder", "goal_encoder")]
    phi, psi = scored(update, with_action, names)
    tau = choices.get("temperature", 1.0)
    if choices.get("unit"):
        names.append(numbered("temperature", member))
        tau = jnp.exp(update.arena(names[-1]).take(1)[0])
        free = (phi, psi)
        phi, psi = (lambda s, a: unit(free[0](s, a))), (lambda g: unit(free[1](g)))
    s, g = placed(choices, "start"), placed(choices, "future")
    f = phi(s, action("start")) @ psi(g).T / tau
    critic = (contrast(f, "symmetric"), names)

    score = lambda a: (phi(g, a) * psi(g)).sum(-1) / tau
    at_goal = {
        "taken": lambda: score(action("future")),
        "source": lambda: score(action("start")),
        "dummy": lambda: jax.nn.logsumexp(
            jnp.stack([score(column(f"permuted future {m}", ACTION)) for m in range(4)]), axis=0
        )
        - jnp.log(4.0),
    }[choices.get("target_action", "taken")]()
    t = at_goal[None] - f
    if choices.get("clamped", True):
        t = jnp.maximum(t, 0.0)
    t = hold(t)
    ends = encode(g, beside(choices, "future"))
    d = pairs(head, encode(s, action("start")), ends)
    excess = (relu(jnp.diagonal(d - t)) ** 2).mean()
    off = 1 - jnp.eye(BATCH)
    shortfall = (off * relu(t - d) ** 2).sum() / off.sum()
    dual = numbered("multiplier", member)
    raw = update.arena(dual).take(1)[0]
    multiplier = jnp.minimum(0.01 + jax.nn.softplus(raw), 1e4)
    held = hold(multiplier)
    if choices.get("weights", "authors") == "authors":
        loss = excess + shortfall / held
    else:
        loss = jnp.sqrt(held) * excess + shortfall / jnp.sqrt(held)
    loss = loss + held_below_elapsed(encode, head, choices, 1.0)
    passes = {
        "critic": critic,
        "distance": (loss, [numbered("distance", member)]),
        "multiplier": (multiplier * hold(0.1 - excess), [dual]),
    }
    return (encode, head, with_action), passes


def crl(update, **choices):
    with_action = not choices.get("state_critic")
    tau = choices.get("temperature", 1.0)
    directions = "binary" if choices.get("contrast") == "nce" else "forward"
    losses, moved, answers = [], [], []
    s, g = state("start"), state("mixed0")

    def learn(names, with_action):
        phi, psi = scored(update, with_action, names)
        f = phi(s, action("start")) @ psi(state("future")).T / tau
        losses.append(contrast(f, directions))
        moved.extend(names)
        score = lambda s, a: -(phi(s, a) * psi(g)).sum(-1) / tau
        after = (lambda a: score(s, a)) if with_action else None
        return after, lambda s: score(s, None)

    for member in range(choices.get("critics", 1)):
        names = [numbered(name, member) for name in ("start_encoder", "goal_encoder")]
        answers.append(learn(names, with_action))
    if choices.get("baseline") == "value":
        choices["value"] = learn(["value_start", "value_goal"], False)[1]
    update.descend("critic", sum(losses), *moved)
    after, before = (farthest(each) for each in zip(*answers))
    extract(update, Policy(update), "mixed0", after, before, **choices)


def gcbc(update, **choices):
    policy = Policy(update, choices.get("law", "constant"))
    goal = state("mixed0" if choices.get("mixed") else "future")
    likely = policy.log_likelihood(action("start"), state("start"), goal)
    update.descend("policy", -likely.mean(), "policy")


def qrl(update, **choices):
    members = [qrl_member(update, choices, member) for member in range(choices.get("critics", 1))]
    for name in members[0][1]:
        losses, arenas = zip(*(passes[name] for _, passes in members))
        update.descend(name, sum(losses), *arenas)
    after, before = (farthest(each) for each in zip(*(answers for answers, _ in members)))
    extract(update, Policy(update), "mixed0", after, before, **choices)


def qrl_member(update, choices, member):
    names = [numbered(name, member) for name in ("distance", "multiplier")]
    arena = update.arena(names[0])
    latent = 5 if choices.get("projector") else 8
    encoder = arena.mlp(STATE, latent)
    project = arena.mlp(latent, 8, (7,)) if choices.get("projector") else lambda z: z
    compare = head_of(arena, choices.get("head", "iqe"))
    head = lambda x, y: compare(project(x), project(y))
    dynamics = arena.mlp(latent + ACTION, latent)
    z, after_one, far = (encoder(state(rows)) for rows in ("start", "next", "random"))
    push = (100.0 * jax.nn.softplus(5.0 - head(z, far) / 100.0)).mean()
    excess = (relu(head(z, after_one) - 1.0) ** 2).mean()
    raw = update.arena(names[1]).take(1)[0]
    multiplier = jnp.exp(raw) if choices.get("exponential") else jax.nn.softplus(raw)
    step = lambda z, a: z + dynamics(z, a)
    guess = step(z, action("start"))
    power = 2 if choices.get("square") else 1
    error = 0.5 * (head(guess, after_one) ** power + head(after_one, guess) ** power).mean()
    passes = {
        "critic": (push + hold(multiplier) * excess + error, names[0]),
        "multiplier": (multiplier * hold(0.0625 - excess), names[1]),
    }
    goal = encoder(state("mixed0"))
    after = lambda a: head(step(encoder(state("start")), a), goal)
    return (after, lambda s: head(encoder(s), goal)), passes


# What a teacher's farthest goal is, in nats; the test has the same.
FARTHEST = 2.0


def atlas(update, **choices):
    arena = update.arena("distance")
    encoder = arena.mlp(STATE, 8)
    head = head_of(arena, "iqe")
    descends = choices.get("extraction") == "ddpg-bc"
    z, far = encoder(state("start")), encoder(state("taught"))
    t = column("lesson start taught", 1)[:, 0]
    d, step = head(z, far), jnp.log(1 / DISCOUNT)
    off = jnp.where(t < 0, relu(-t - d), jnp.abs(d - t))
    loss = ((1 + jnp.abs(t) / step) ** -choices.get("relative", 0.3) * off).mean()
    if descends:
        dynamics = arena.mlp(8 + ACTION, 8)
        ahead = lambda z, a: z + dynamics(z, a)
        after_one, guess = encoder(state("next")), ahead(z, action("start"))
        loss = loss + 0.5 * (head(guess, after_one) + head(after_one, guess)).mean()
    update.descend("critic", loss, "distance")
    policy = Policy(update)
    goal = encoder(state("mixed0"))
    steps = lambda z: jnp.clip(head(z, goal) / FARTHEST, -1, 1) * FARTHEST / step
    after = (lambda a: steps(ahead(encoder(state("start")), a))) if descends else None
    extract(update, policy, "mixed0", after, lambda s: steps(encoder(s)), **choices)


def twin(arena, inputs, count=2, hidden=(6,)):
    """Critics that each give one number a row."""
    networks = [arena.mlp(inputs, 1, hidden) for _ in range(count)]
    return lambda *parts: jnp.stack([network(*parts)[:, 0] for network in networks])


def ddpg(update, **choices):
    sizes = 2 * STATE + ACTION
    critic, target = (twin(update.arena(name), sizes) for name in ("critic", "target"))
    policy = Policy(update)
    s, a, after_one, g = state("start"), action("start"), state("next"), state("mixed0")
    reached = column("reached next mixed0", 1)[:, 0]
    ahead = target(after_one, policy.act(after_one, g), g).min(0)
    y = -(1 - reached) + DISCOUNT * (1 - reached) * ahead
    y = hold(jnp.clip(y, -1 / (1 - DISCOUNT), 0.0))
    update.descend("critic", ((y - critic(s, a, g)) ** 2).mean(-1).sum(), "critic")
    after = lambda a: -critic(s, a, state("mixed1")).min(0)
    extract(update, policy, "mixed1", after, **choices)


def expectile(u, advantage, kappa):
    return (jnp.abs(kappa - (advantage < 0)) * u**2).mean()


def gciql(update, **choices):
    value = twin(update.arena("value"), 2 * STATE, 1)
    sizes = 2 * STATE + ACTION
    critic, target = (twin(update.arena(name), sizes) for name in ("critic", "target"))
    policy = Policy(update)
    s, a, after_one, g = state("start"), action("start"), state("next"), state("mixed0")
    there = column("reached start mixed0", 1)[:, 0]
    u = hold(target(s, a, g).min(0)) - value(s, g)[0]
    y = hold(-(1 - there) + DISCOUNT * (1 - there) * value(after_one, g)[0])
    loss = expectile(u, u, 0.9) + ((y - critic(s, a, g)) ** 2).mean(-1).sum()
    update.descend("critic", loss, "value", "critic")
    after = lambda a: -critic(s, a, state("mixed1")).min(0)
    choices["value"] = lambda s: -value(s, state("mixed1"))[0]
    extract(update, policy, "mixed1", after, **choices)


def implicit_value(value, target, kappa):
    """GCIVL's loss; value and target take (s, g) and give one row a critic."""
    s, after_one, g = state("start"), state("next"), state("mixed0")
    there = column("reached start mixed0", 1)[:, 0]
    r, m = -(1 - there), 1 - there
    ahead, here = target(after_one, g), target(s, g)
    advantage = r + DISCOUNT * m * ahead.min(0) - here.mean(0)
    y = hold(r + DISCOUNT * m * ahead)
    return sum(expectile(y[k] - value(s, g)[k], advantage, kappa) for k in range(2))


def gcivl(update, hidden=(6,), **choices):
    arenas = (update.arena(name) for name in ("value", "target"))
    value, target = (twin(arena, 2 * STATE, hidden=hidden) for arena in arenas)
    update.descend("critic", implicit_value(value, target, 0.9), "value")
    policy = Policy(update)
    before = lambda s: -value(s, state("mixed1")).mean(0)
    extract(update, policy, "mixed1", None, before, **choices)


def hiql(update, **choices):
    size = 4

    def valued(name):
        arena = update.arena(name)
        e = arena.mlp(2 * STATE, size)
        networks = twin(arena, STATE + size)

        def represent(s, g):
            out = e(s, g)
            return jnp.sqrt(float(size)) * out / jnp.sqrt((out**2).sum(-1, keepdims=True))

        return (lambda s, g: networks(s, represent(s, g))), represent

    (value, represent), (target, _) = valued("value"), valued("target")
    update.descend("critic", implicit_value(value, target, 0.7), "value")
    arena = update.arena("policy")
    high = Policy(update, outputs=size, arena=arena)
    low = Policy(update, inputs=STATE + size, arena=arena)
    s, near, far, g = state("start"), state("ahead0"), state("ahead1"), state("mixed1")
    v = lambda s, g: value(s, g).mean(0)
    gain = v(state("next"), near) - v(s, near)
    low_likely = low.log_likelihood(action("start"), s, hold(represent(s, near)))
    high_gain = v(far, g) - v(s, g)
    high_likely = high.log_likelihood(hold(represent(s, far)), s, g)
    loss = weighted(low_likely, gain, 3.0, False) + weighted(high_likely, high_gain, 3.0, False)
    update.descend("policy", loss, "policy")


def c_learning(update, **choices):
    sizes = 2 * STATE + ACTION
    count = choices.get("critics", 1)
    critic, target = (twin(update.arena(name), sizes, count) for name in ("critic", "target"))
    policy = Policy(update)
    s, a, after_one, g = state("start"), action("start"), state("next"), state("random")
    one, zero = (lambda f: jax.nn.softplus(-f)), jax.nn.softplus
    w = jnp.exp(target(after_one, policy.act(after_one, g), g).min(0))
    w = hold(jnp.clip(w, 0.0, 20.0))
    f = critic(s, a, g)
    each = (1 - DISCOUNT) * one(critic(s, a, after_one)) + DISCOUNT * w * one(f) + zero(f)
    update.descend("critic", each.mean(-1).sum(), "critic")
    after = lambda a: -critic(s, a, state("mixed0")).min(0)
    extract(update, policy, "mixed0", after, **choices)


def backup(d, left, gaps, cutoff, diagonal):
    """gamma^k e^(d - d') - d, linear past the cutoff; matching pairs weigh `diagonal`."""
    gap = d - left
    inside = jnp.where(gap > cutoff, 0.0, gap)
    terms = jnp.where(gap > cutoff, gap, DISCOUNT**gaps * jnp.exp(inside) - d)
    return (1 - diagonal) * terms.mean() + diagonal * jnp.diagonal(terms).mean()


def paired(update, choices):
    """Two critics of phi(s, a) and psi(s) under one quasimetric, divided by the root of its size."""
    arena = update.arena("distance")
    with_action = not choices.get("state_critic")
    critics = []
    for _ in range(2):
        phi = arena.mlp(STATE + ACTION, 8) if with_action else None
        psi = arena.mlp(STATE, 8)
        head = head_of(arena, choices.get("head", "mrn"))
        critics.append((phi, psi, lambda x, y, head=head: head(x, y) / jnp.sqrt(8.0)))
    return critics, with_action


def extract_paired(update, critics, with_action, choices):
    policy = Policy(update)
    s, g = state("start"), state("mixed0")
    farthest = lambda start: jnp.stack([d(start(c), c[1](g)) for c in critics for d in [c[2]]]).max(0)
    after = (lambda a: farthest(lambda c: c[0](s, a))) if with_action else None
    extract(update, policy, "mixed0", after, lambda s: farthest(lambda c: c[1](s)), **choices)


def tmd(update, *, undivided=(), invariance_weight=0.1, backup_weight=0.1, **choices):
    critics, with_action = paired(update, choices)
    read = lambda term, d: jnp.sqrt(8.0) * d if term in undivided else d
    loss = 0.0
    for phi, psi, head in critics:
        s = state("start")
        starts = phi(s, action("start")) if with_action else psi(s)
        goals = psi(state("future"))
        d = pairs(head, starts, goals)
        left = hold(pairs(head, psi(state("next")), goals))
        both = read("backup", d), read("backup", left)
        one = backup(*both, 1.0, choices.get("cutoff", 3.0), 0.5)
        loss = loss + contrast(-d, "backward") + backup_weight * one
        if with_action:
            loss = loss + invariance_weight * read("invariance", head(psi(s), starts).mean())
    update.descend("critic", loss, "distance")
    extract_paired(update, critics, with_action, choices)


def mqe(update, **choices):
    critics, with_action = paired(update, choices)
    loss = 0.0
    for phi, psi, head in critics:
        s = state("start")
        starts = phi(s, action("start")) if with_action else psi(s)
        goals = psi(state("future"))
        d = pairs(head, starts, goals)
        left = hold(pairs(head, psi(state("waypoint")), goals))
        gaps = column("gap waypoint", 1)
        loss = loss + backup(d, left, gaps, choices.get("cutoff", 5.0), choices.get("diagonal", 0.5))
        if with_action:
            loss = loss + ((jnp.exp(-head(psi(s), starts)) - 1) ** 2).mean()
    update.descend("critic", loss, "distance")
    extract_paired(update, critics, with_action, choices)


def case(settings="", **choices):
    return settings, choices


def named(key, *names):
    return [case(f"algorithm.{key}={name}", **{key: name}) for name in names]


def heads(*names):
    return [case(HEADS[name], head=name, extraction="none") for name in names]


def gelu(x):
    return jax.nn.gelu(x, approximate=True)


LAYERED = dict(hidden=(6, 4), activation=gelu, norm=True)
TANH = "algorithm.policy.law.kind=tanh"
CATEGORICAL = case("algorithm.policy.law.kind=categorical", law="categorical")
STATES = case("algorithm.critic=state", state_critic=True)
TEMPERATURE = case("algorithm.temperature=2.0", temperature=2.0)
CUTOFF = case("algorithm.cutoff=0.05", cutoff=0.05)
TWIN = "algorithm.critics=2"
PROJECTOR = "algorithm.projector={latent=5,network={hidden=[7]}}"
BOTH = [case(extraction="ddpg-bc"), case()]
GOALS = "algorithm.goals={current=0.2,future=0.5,random=0.3}"
BACKUP = "algorithm.invariance_weight={} algorithm.cutoff={} algorithm.diagonal=0.5"

# Name: what computes it, settings that all of its cases have, and its cases.
LEARNERS = {
    "cmd1": (
        cmd1,
        f"{NETWORK} {HEAD}",
        [
            case(),
            *named("variant", "forward", "backward", "binary", "no-potential", "forward-free"),
            *heads("mrn-2", "max", "iqe", "pqe", "wide-norm", "deep-norm"),
            case(extraction="ddpg-bc"),
            case(extraction="ddpg-bc", scale="spread"),
            case(extraction="ddpg-bc", scale="unit", cloning_goals="future"),
            case(awr=RAW),
            case(baseline="data"),
            TEMPERATURE,
            STATES,
            CATEGORICAL,
            case(TANH, law="tanh"),
            case(TANH, law="tanh", extraction="ddpg-bc"),
            case(HEADS["iqe"], head="iqe", extraction="ddpg-bc"),
            case(HEADS["max"], head="max"),
            *named("goal_action", "rolled", "taken"),
            case(TWIN, critics=2),
            case(TWIN, critics=2, extraction="ddpg-bc"),
            case(f"{TWIN} algorithm.variant=backward algorithm.critic=state", critics=2, variant="backward", state_critic=True),
            case("algorithm.goal_noise=0.3", noisy=True),
            case("algorithm.bound_weight=0.7 algorithm.temperature=2.0", bound=0.7, temperature=2.0),
            case("algorithm.bound_weight=0.7 algorithm.critic=state", bound=0.7, state_critic=True),
            case(
                "algorithm.network={hidden=[6,4],activation='gelu',norm='layer'}",
                network=LAYERED,
                extraction="none",
            ),
        ],
    ),
    "cmd2": (
        cmd2,
        f"{NETWORK} {HEAD} algorithm.latent=8 algorithm.tolerance=0.1 algorithm.targets=clamped",
        [
            case(),
            case("algorithm.target_action=source", target_action="source", extraction="none"),
            case("algorithm.target_action=dummy", target_action="dummy", extraction="none"),
            case("algorithm.targets=raw", clamped=False, extraction="none"),
            case("algorithm.weights=root", weights="root", extraction="none"),
            *heads("max", "iqe"),
            case(extraction="ddpg-bc"),
            STATES,
            case("algorithm.temperature=2.0", temperature=2.0, extraction="none"),
            case(TWIN, critics=2, extraction="ddpg-bc"),
            case("algorithm.representations=unit", unit=True, extraction="none"),
            case(f"{TWIN} algorithm.representations=unit", critics=2, unit=True),
            case(
                "algorithm.goal_noise=0.3 algorithm.bound_weight=0.7 algorithm.temperature=2.0",
                noisy=True,
                bound=0.7,
                temperature=2.0,
            ),
        ],
    ),
    "crl": (
        crl,
        f"{NETWORK} algorithm.latent=8",
        [
            case(),
            case("algorithm.contrast=nce", contrast="nce", extraction="ddpg-bc"),
            STATES,
            TEMPERATURE,
            case(TWIN, critics=2, extraction="ddpg-bc"),
            case("algorithm.value=true", baseline="value"),
            case(f"{TWIN} algorithm.value=true algorithm.contrast=nce", critics=2, contrast="nce", baseline="value"),
        ],
    ),
    "gcbc": (gcbc, "", [case(), case(TANH, law="tanh"), CATEGORICAL, case(GOALS, mixed=True)]),
    "atlas": (
        atlas,
        f"{NETWORK} algorithm.network.norm=none {HEADS['iqe']} algorithm.relative=0.3"
        " algorithm.phases.policy_from=0.0",
        [
            case(limit=2.0),
            case(limit=0.7),
            case("algorithm.relative=1.0", relative=1.0, limit=0.7, awr=RAW),
            case(limit=0.2, horizon=10, awr=RAW),
            case(extraction="ddpg-bc"),
            case(extraction="none"),
        ],
    ),
    "qrl": (
        qrl,
        f"{NETWORK} {HEADS['iqe']} algorithm.tolerance=0.0625 algorithm.multiplier=softplus",
        [
            case(),
            case(extraction="ddpg-bc"),
            case(
                f"algorithm.multiplier=exponential algorithm.dynamics_error=square {HEAD}",
                exponential=True,
                square=True,
                head="mrn",
                extraction="none",
            ),
            case(TWIN, critics=2, extraction="ddpg-bc"),
            case("algorithm.advantage=successor", successor=True),
            case(PROJECTOR, projector=True),
            case(f"{PROJECTOR} {TWIN} algorithm.advantage=successor", projector=True, critics=2, successor=True),
        ],
    ),
    "ddpg": (ddpg, f"{NETWORK} {GOALS}", BOTH),
    "gciql": (gciql, f"{NETWORK} {GOALS} algorithm.expectile=0.9", [*BOTH, case(baseline="value")]),
    # Critics of twelve units are so far apart that the lesser one decides the sign of some advantages.
    "gcivl": (
        gcivl,
        f"{NETWORK} {GOALS} algorithm.expectile=0.9",
        [case(awr=RAW), case(), case("algorithm.network.hidden=[12]", hidden=(12,))],
    ),
    "hiql": (
        hiql,
        f"{NETWORK} {GOALS} algorithm.representation=4 algorithm.expectile=0.7"
        " algorithm.inverse_temperature=3.0",
        [case()],
    ),
    "c-learning": (c_learning, NETWORK, [*BOTH, case(TWIN, critics=2, extraction="ddpg-bc")]),
    "tmd": (
        tmd,
        f"{NETWORK} {HEAD} {BACKUP.format(0.1, 3.0)} algorithm.backup_weight=0.1",
        [
            case(),
            CUTOFF,
            case("algorithm.critic=state", state_critic=True, extraction="none"),
            *heads("mrn-2"),
            case(extraction="ddpg-bc"),
            case("algorithm.invariance_of=undivided", undivided=["invariance"], extraction="none"),
            case(
                "algorithm.backup_of=undivided algorithm.cutoff=0.5",
                undivided=["backup"],
                cutoff=0.5,
                extraction="none",
            ),
            case(
                "algorithm.invariance_of=undivided algorithm.invariance_weight=1.0"
                " algorithm.backup_of=undivided algorithm.backup_weight=0.05",
                undivided=["invariance", "backup"],
                invariance_weight=1.0,
                backup_weight=0.05,
                extraction="none",
            ),
        ],
    ),
    "mqe": (
        mqe,
        f"{NETWORK} {HEAD} {BACKUP.format(1.0, 5.0)}",
        [
            case(),
            CUTOFF,
            case("algorithm.diagonal=0.1", diagonal=0.1),
            STATES,
            *heads("mrn-2"),
            case(extraction="ddpg-bc"),
        ],
    ),
}
# Learners whose policy is their own.
UNEXTRACTED = ("gcbc", "hiql")


def measure(learner, choices):
    """The loss of every pass, and its gradient by every arena it moves."""
    dry = Update({})
    learner(dry, **choices)
    flats = {name: first(name, arena.used) for name, arena in dry.arenas.items()}

    def loss(moved, held, name):
        update = Update({**held, **moved})
        learner(update, **choices)
        return update.passes[name][0]

    losses, gradients = {}, {}
    for name, (_, arenas) in dry.passes.items():
        moved = {arena: flats[arena] for arena in arenas}
        value, gradient = jax.value_and_grad(loss)(moved, flats, name)
        losses[name] = float(value)
        gradients |= {arena: np.asarray(g).tolist() for arena, g in gradient.items()}
    return losses, gradients


def main():
    OUT.mkdir(exist_ok=True)
    for name, (learner, common, cases) in LEARNERS.items():
        entries = []
        for settings, choices in cases:
            losses, gradients = measure(learner, choices)
            taken = "" if name in UNEXTRACTED else extraction(choices)
            both = f"{SMALL} algorithm.name={name} {common} {taken} {settings}".split()
            short = lambda x: float(f"{x:.12g}")
            entries.append(
                {
                    "settings": both,
                    "losses": {key: short(value) for key, value in losses.items()},
                    "gradients": {key: [short(x) for x in g] for key, g in gradients.items()},
                }
            )
        lines = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in entries)
        (OUT / f"{name}.json").write_text(f"[\n{lines}\n]\n")
        print(name, len(entries), "cases")


if __name__ == "__main__":
    main()
