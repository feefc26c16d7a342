#!/usr/bin/env python3
"""The updates of CMD-1, CMD-2, QRL, TMD and GCIQL in JAX, timed at the sizes of `isochrone bench`.

    python benches/peers/jax_peer.py --check                  # against scripts/parity.py
    isochrone bench --json … > report.json; echo 0 | python benches/peers/jax_peer.py --cases report.json

Times cases of a bench report, those whose numbers stand on standard input (see rounds.py). Modes: `scan`, data on the device, draws inside, many updates in one `lax.scan`, seeds by `vmap`, buffers
donated; `call`, batches drawn by numpy on the host, one jitted call an update. Losses are those of
scripts/parity.py with DDPG+BC; all passes read the parameters the update began with and share one
backward, each held where it must not move another's. XLA fuses differences and reductions of all pairs;
`products` replaces the backward of the norm by matrix products (see `pairwise`).
"""

import argparse
import concurrent.futures
import functools
import json
import os
import pathlib
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

from rounds import cases_of, serve, timed

hold = jax.lax.stop_gradient
relu = jax.nn.relu
DISCOUNT, LENGTH, CLONING = 0.99, 100, 0.03
# Draws by the device's own generator: less to compile and to run than JAX's default.
jax.config.update("jax_default_prng_impl", "unsafe_rbg")


# Networks: a list of (weight, bias).


def mlp(key, widths, last=1.0):
    keys = jax.random.split(key, len(widths) - 1)
    layers = []
    for at, (inputs, outputs) in enumerate(zip(widths, widths[1:])):
        bound = np.sqrt(3 / inputs) * (last if at == len(widths) - 2 else 1.0)
        weight = jax.random.uniform(keys[at], (inputs, outputs), minval=-bound, maxval=bound)
        layers.append((weight, jnp.zeros((1, outputs))))
    return layers


def apply(layers, *parts):
    x = jnp.concatenate(parts, axis=-1)
    for weight, bias in layers[:-1]:
        x = relu(x @ weight + bias)
    weight, bias = layers[-1]
    return x @ weight + bias


# Heads.


def root(square):
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1.0)), 0.0)


def mrn(x, y, components):
    """Of corresponding rows, or of all pairs where x and y are broadcast against each other."""
    d = x - y
    d = d.reshape(*d.shape[:-1], components, -1)
    v, u = jnp.split(d, 2, axis=-1)
    return (root((u**2).sum(-1)) + relu(v).max(-1)).mean(-1)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def mrn_products(x, y, components):
    return mrn_products_forward(x, y, components)[0]


def halves(x, components):
    return jnp.split(x.reshape(x.shape[0], components, -1), 2, axis=-1)


def mrn_products_forward(x, y, components):
    (v, u), (vy, uy) = halves(x, components), halves(y, components)
    norm = root(((u[:, None] - uy[None]) ** 2).sum(-1))
    d = v[:, None] - vy[None]
    best, pick = d.max(-1), d.argmax(-1)
    pick = jnp.where(best > 0, pick, -1)
    return (norm + relu(best)).mean(-1), (x, y, norm, pick)


def mrn_products_backward(components, kept, gradient):
    x, y, norm, pick = kept
    (v, u), (_, uy) = halves(x, components), halves(y, components)
    share = (gradient / components)[..., None]
    weight = jnp.where(norm > 0, share / jnp.where(norm > 0, norm, 1.0), 0.0)
    du = u * weight.sum(1)[..., None] - jnp.einsum("ijk,jkm->ikm", weight, uy)
    duy = uy * weight.sum(0)[..., None] - jnp.einsum("ijk,ikm->jkm", weight, u)
    picked = jnp.where(pick[..., None] == jnp.arange(v.shape[-1]), share[..., None], 0.0)
    dx = jnp.concatenate([picked.sum(1), du], -1).reshape(x.shape)
    dy = jnp.concatenate([-picked.sum(0), duy], -1).reshape(y.shape)
    return dx, dy


mrn_products.defvjp(mrn_products_forward, mrn_products_backward)


def pairwise(x, y, components, form):
    """All pairs. `plain` leaves the backward to JAX, which streams all differences again; in
    `products` that of the norm is u_i sum_j W_ij - (W u')_i, two matrix products."""
    if form == "products":
        return mrn_products(x, y, components)
    return mrn(x[:, None], y[None], components)


def iqe(raw, x, y, group):
    alpha = jax.nn.sigmoid(raw)
    x, y = (z.reshape(*z.shape[:-1], -1, group) for z in (x, y))
    order = jnp.argsort(x, axis=-1)
    low = jnp.take_along_axis(x, order, -1)
    high = jnp.maximum(low, jnp.take_along_axis(y, order, -1))
    reach = jax.lax.cummax(high, axis=high.ndim - 1)
    before = jnp.concatenate([low[..., :1], reach[..., :-1]], -1)
    length = relu(high - jnp.maximum(low, before)).sum(-1)
    return alpha * length.mean(-1) + (1 - alpha) * length.max(-1)


# What learners share.


def symmetric(logits):
    own = jnp.diagonal(logits)
    goals, starts = (jax.nn.logsumexp(logits, axis=axis) for axis in (1, 0))
    return (goals - own).mean() + (starts - own).mean()


def extracted(policy, batch, goal, after):
    """DDPG+BC on goals `goal`; `after(a)` is the distance from (s, a)."""
    mean = apply(policy, batch["state start"], goal)
    d = after(jnp.clip(mean, -1.0, 1.0))
    half = 0.5 * jnp.log(2 * jnp.pi)
    likely = (-0.5 * (batch["action start"] - mean) ** 2 - half).sum(-1)
    return d.mean() / hold(jnp.abs(d).mean() + 1e-6) - CLONING * likely.mean()


def encoded_policy(policy, encoder, batch, components):
    held = hold(encoder)
    ends = apply(held, batch["state mixed0"], batch["permuted mixed0 0"])
    after = lambda a: mrn(apply(held, batch["state start"], a), ends, components)
    return extracted(policy, batch, batch["state mixed0"], after)


# Learners: losses of every pass, given parameters by arena, a batch by column, and the case.


def cmd1(p, batch, case):
    goal, components = batch["state future"], case["components"]
    starts = apply(p["distance"], batch["state start"], batch["action start"])
    ends = apply(p["distance"], goal, batch["permuted future 0"])
    logits = apply(p["potential"], goal).T - pairwise(starts, ends, components, case["form"])
    policy = encoded_policy(p["policy"], p["distance"], batch, components)
    return {"critic": symmetric(logits), "policy": policy}


def cmd2(p, batch, case):
    s, a, g = batch["state start"], batch["action start"], batch["state future"]
    psi = apply(p["goal_encoder"], g)
    logits = apply(p["start_encoder"], s, a) @ psi.T
    at_goal = (apply(p["start_encoder"], g, batch["action future"]) * psi).sum(-1)
    target = hold(jnp.maximum(at_goal[None] - logits, 0.0))
    starts = apply(p["distance"], s, a)
    ends = apply(p["distance"], g, batch["permuted future 0"])
    d = pairwise(starts, ends, case["components"], case["form"])
    size = d.shape[0]
    excess = (relu(jnp.diagonal(d - target)) ** 2).mean()
    off = 1 - jnp.eye(size)
    shortfall = (off * relu(target - d) ** 2).sum() / (size * (size - 1))
    multiplier = jnp.minimum(0.01 + jax.nn.softplus(p["multiplier"][0]), 1e4)
    return {
        "critic": symmetric(logits),
        "distance": excess + shortfall / hold(multiplier),
        "multiplier": multiplier * hold(0.1 - excess),
        "policy": encoded_policy(p["policy"], p["distance"], batch, case["components"]),
    }


def qrl(p, batch, case):
    encoder, raw, dynamics = p["distance"]
    head = lambda x, y, raw=raw: iqe(raw[0], x, y, case["group"])
    z, following, far = (apply(encoder, batch[f"state {rows}"]) for rows in ("start", "next", "random"))
    push = (100.0 * jax.nn.softplus(5.0 - head(z, far) / 100.0)).mean()
    excess = (relu(head(z, following) - 1.0) ** 2).mean()
    multiplier = jax.nn.softplus(p["multiplier"][0])
    guess = z + apply(dynamics, z, batch["action start"])
    error = 0.5 * (head(guess, following) + head(following, guess)).mean()
    held, still = hold(p["distance"]), hold(z)
    goal = apply(held[0], batch["state mixed0"])
    after = lambda a: head(still + apply(held[2], still, a), goal, held[1])
    return {
        "critic": push + hold(multiplier) * excess + error,
        "multiplier": multiplier * hold(0.0625 - excess),
        "policy": extracted(p["policy"], batch, batch["state mixed0"], after),
    }


def tmd(p, batch, case):
    components, size = case["components"], jnp.sqrt(float(case["latent"]))
    s, a, goal = batch["state start"], batch["action start"], batch["state future"]
    loss = 0.0
    for phi, psi in p["distance"]:
        starts, goals = apply(phi, s, a), apply(psi, goal)
        d = pairwise(starts, goals, components, case["form"]) / size
        left = hold(pairwise(apply(psi, batch["state next"]), goals, components, "plain") / size)
        gap = d - left
        inside = jnp.where(gap > 3.0, 0.0, gap)
        terms = jnp.where(gap > 3.0, gap, case["discount"] * jnp.exp(inside) - d)
        backup = 0.5 * terms.mean() + 0.5 * jnp.diagonal(terms).mean()
        contrast = (jax.nn.logsumexp(-d, axis=0) + jnp.diagonal(d)).mean()
        loss += contrast + 0.1 * backup + 0.1 * (mrn(apply(psi, s), starts, components) / size).mean()
    held = hold(p["distance"])
    aim = batch["state mixed0"]
    each = lambda a: [mrn(apply(phi, s, a), apply(psi, aim), components) / size for phi, psi in held]
    return {"critic": loss, "policy": extracted(p["policy"], batch, aim, lambda a: jnp.stack(each(a)).max(0))}


def gciql(p, batch, case):
    s, a, g, aim = (batch[name] for name in ("state start", "action start", "state mixed0", "state mixed1"))
    q = lambda networks, a, g: jnp.stack([apply(network, s, a, g)[:, 0] for network in networks])
    there = batch["reached start mixed0"][:, 0]
    u = hold(q(p["target"], a, g).min(0)) - apply(p["value"], s, g)[:, 0]
    value = (jnp.abs(0.9 - (u < 0)) * u**2).mean()
    ahead = apply(p["value"], batch["state next"], g)[:, 0]
    y = hold(-(1 - there) + case["discount"] * (1 - there) * ahead)
    loss = value + ((y - q(p["critic"], a, g)) ** 2).mean(-1).sum()
    held = hold(p["critic"])
    policy = extracted(p["policy"], batch, aim, lambda a: -q(held, a, aim).min(0))
    return {"critic": loss, "policy": policy}


LEARNERS = {"cmd1": cmd1, "cmd2": cmd2, "qrl": qrl, "tmd": tmd, "gciql": gciql}


def parameters(key, case):
    state, action, hidden, latent = (case[name] for name in ("state", "action", "hidden", "latent"))
    keys = iter(jax.random.split(key, 8))
    network = lambda inputs, outputs, last=1.0: mlp(next(keys), [inputs, *hidden, outputs], last)
    both = state + action
    values = {
        "cmd1": lambda: {"distance": network(both, latent), "potential": network(state, 1)},
        "cmd2": lambda: {
            "distance": network(both, latent),
            "start_encoder": network(both, latent),
            "goal_encoder": network(state, latent),
            "multiplier": jnp.zeros(1),
        },
        "qrl": lambda: {
            "distance": [network(state, latent), jnp.zeros(1), network(latent + action, latent, 0.0)],
            "multiplier": jnp.full(1, np.log(np.expm1(0.01))),
        },
        "tmd": lambda: {"distance": [(network(both, latent), network(state, latent)) for _ in range(2)]},
        "gciql": lambda: {
            "value": network(2 * state, 1),
            "critic": (twins := [network(2 * state + action, 1) for _ in range(2)]),
            "target": jax.tree.map(jnp.copy, twins),
        },
    }[case["learner"]]()
    return values | {"policy": network(2 * state, action, 0.01)}


# The update.

RATES = {"cmd2 multiplier": 0.1, "qrl multiplier": 1e-2}


def begin(key, case):
    values = parameters(key, case)
    zeros = jax.tree.map(jnp.zeros_like, values)
    return {"values": values, "first": zeros, "second": jax.tree.map(jnp.copy, zeros), "count": jnp.zeros(())}


def update(state, batch, case):
    total = lambda values: sum(LEARNERS[case["learner"]](values, batch, case).values())
    gradient = jax.grad(total)(state["values"])
    count = state["count"] + 1
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["first"], gradient)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, state["second"], gradient)
    values = {}
    for arena, before in state["values"].items():
        rate = RATES.get(f"{case['learner']} {arena}", 3e-4) / (1 - 0.9**count)
        scale = 1 / jnp.sqrt(1 - 0.999**count)
        move = lambda w, m, v: w - rate * m / (jnp.sqrt(v) * scale + 1e-8)
        values[arena] = jax.tree.map(move, before, first[arena], second[arena])
    if "target" in values:
        follow = lambda w, to: w + 0.005 * (to - w)
        values["target"] = jax.tree.map(follow, state["values"]["target"], values["critic"])
    return {"values": values, "first": first, "second": second, "count": count}


# Batches: the laws of the library's sampler, for trajectories of one length.


def draw(keys, numbers, data, size, learner):
    """The columns of a batch; `numbers` is jax.random or its twin on the host."""
    states, actions = data
    rows = states.shape[0]
    trajectory = numbers.randint(keys[0], (size,), 0, rows // LENGTH)
    place = numbers.randint(keys[1], (size,), 0, LENGTH - 1)
    start, rest = trajectory * LENGTH + place, LENGTH - 1 - place

    def future(key):
        share = numbers.uniform(key, (size,)) * (1 - DISCOUNT ** (rest + 1.0))
        offset = numbers.floor(numbers.log1p(-share) / np.log(DISCOUNT)).astype("int32")
        return start + numbers.minimum(offset, rest)

    def mixed(keys, current, ahead):
        choice = numbers.uniform(keys[0], (size,))
        anywhere = numbers.randint(keys[1], (size,), 0, rows)
        goal = numbers.where(choice < current + ahead, future(keys[2]), anywhere)
        return numbers.where(choice < current, start, goal)

    batch = {"state start": states[start], "action start": actions[start]}
    aim = mixed(keys[2:5], 0.0, 0.5)
    if learner in ("cmd1", "cmd2"):
        goal = future(keys[5])
        batch |= {"state future": states[goal], "permuted future 0": numbers.permutation(keys[6], actions[goal])}
        batch |= {"state mixed0": states[aim], "permuted mixed0 0": numbers.permutation(keys[7], actions[aim])}
        if learner == "cmd2":
            batch["action future"] = actions[goal]
        return batch
    batch["state next"] = states[start + 1]
    if learner == "gciql":
        goal = mixed(keys[8:11], 0.2, 0.5)
        reached = (goal == start).astype("float32")[:, None]
        return batch | {"state mixed0": states[goal], "state mixed1": states[aim], "reached start mixed0": reached}
    if learner == "qrl":
        batch["state random"] = states[numbers.randint(keys[5], (size,), 0, rows)]
    else:
        batch["state future"] = states[future(keys[5])]
    return batch | {"state mixed0": states[aim]}


class OnDevice:
    randint, uniform = staticmethod(jax.random.randint), staticmethod(jax.random.uniform)
    permutation = staticmethod(jax.random.permutation)
    floor, log1p, minimum, where = jnp.floor, jnp.log1p, jnp.minimum, jnp.where


class OnHost:
    generator = np.random.default_rng(0)
    randint = staticmethod(lambda _, size, low, high: OnHost.generator.integers(low, high, size, np.int32))
    uniform = staticmethod(lambda _, size: OnHost.generator.random(size, np.float32))
    permutation = staticmethod(lambda _, rows: OnHost.generator.permutation(rows))
    floor, log1p, minimum, where = np.floor, np.log1p, np.minimum, np.where


# Timing.


def scan_steps(case):
    """Updates of one call on a GPU: 500 where they are small, so that a call takes tenths of a second."""
    return max(20, 500 * 256 // (case["batch"] * case["seeds"]))


def in_scan(case, data, options):
    """Many updates in one call: nothing leaves the device."""

    def one(carry, data):
        state, key = carry
        key, *draws = jax.random.split(key, 12)
        batch = draw(draws, OnDevice, data, case["batch"], case["learner"])
        return update(state, batch, case), key

    several = case["seeds"] > 1
    each = jax.vmap(one, in_axes=(0, None)) if several else one
    steps = options.steps or (2 if jax.default_backend() == "cpu" else scan_steps(case))

    def many(carry, data):
        return jax.lax.scan(lambda carry, _: (each(carry, data), None), carry, length=steps)[0]

    start = jax.jit(jax.vmap(lambda key: (begin(key, case), key)))
    carry = start(jax.random.split(jax.random.key(0), case["seeds"]))
    carry = carry if several else jax.tree.map(lambda leaf: leaf[0], carry)
    compiled = jax.jit(many, donate_argnums=0).lower(carry, data).compile()
    kept = [carry]

    def run():
        kept[0] = jax.block_until_ready(compiled(kept[0], data))

    return run, steps, kept


def in_calls(case, data, options):
    """Batches from the host, one jitted call an update."""
    host = tuple(np.asarray(part) for part in data)
    step = jax.jit(lambda state, batch: update(state, batch, case), donate_argnums=0)
    sample = lambda: draw([None] * 11, OnHost, host, case["batch"], case["learner"])
    kept = [step(begin(jax.random.key(0), case), sample())]
    steps = options.steps or (1 if jax.default_backend() == "cpu" else 100)

    def run():
        for _ in range(steps):
            kept[0] = step(kept[0], sample())
        jax.block_until_ready(kept)

    return run, steps, kept


def finite(tree):
    leaves = [leaf for leaf in jax.tree.leaves(tree) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    return all(bool(jnp.isfinite(leaf).all()) for leaf in leaves)


def prepared(case, form):
    """A case of `isochrone bench`, with what its config says of the head."""
    head = case["config"].get("head", {})
    wanted = {"qrl": "iqe"}.get(case["learner"], "mrn")
    if head and head["kind"] != wanted:
        raise SystemExit(f"{case['learner']} has head `{head['kind']}`, this program has `{wanted}`")
    return case | {
        "components": head.get("components", 1),
        "group": head.get("group", 8),
        "discount": DISCOUNT,
        "form": form,
    }


def jobs(cases, options):
    """(number of the case, mode, form) of everything to be timed."""
    for number, case in enumerate(cases):
        for mode in options.modes.split(","):
            for form in options.forms.split(","):
                alike = form != "plain" and case["learner"] in ("qrl", "gciql")
                if case["learner"] in LEARNERS and not alike and not (mode == "call" and case["seeds"] > 1):
                    yield number, mode, form


def measure(options):
    """Compiles side by side, at most `options.patience` seconds, then times what it is asked for."""
    cases = cases_of(options.cases)
    data = {}
    for case in cases:
        sizes = tuple(case[name] for name in ("rows", "state", "action"))
        draws = lambda width: jax.random.uniform(jax.random.key(width), (sizes[0], width), minval=-1.0)
        if sizes not in data:
            data[sizes] = jax.block_until_ready((draws(sizes[1]), draws(sizes[2])))

    def prepare(job):
        case, since = cases[job[0]], time.perf_counter()
        sizes = tuple(case[name] for name in ("rows", "state", "action"))
        run, steps, kept = {"scan": in_scan, "call": in_calls}[job[1]](prepared(case, job[2]), data[sizes], options)
        run()
        seconds = time.perf_counter() - since
        print(f"{case['learner']} {case['batch']} x {case['seeds']}, {job[1:]}: {seconds:.0f} s", file=sys.stderr)
        return run, steps, kept, seconds

    pool = concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0)))
    made = {job: pool.submit(prepare, job) for job in jobs(cases, options)}
    concurrent.futures.wait(made.values(), options.patience)

    def one(job, work):
        name = {"peer": "jax", "version": jax.__version__, "mode": job[1], "form": job[2]}
        if not work.done() or work.exception():
            why = work.exception() if work.done() else f"not compiled after {options.patience:.0f} s"
            return name | {"failed": str(why).splitlines()[0][:200]}
        run, steps, kept, seconds = work.result()
        beside = sum(not other.done() for other in made.values())
        times = timed(run, steps, options.seconds)
        return name | times | {"finite": finite(kept), "compile_seconds": seconds, "compiling_beside": beside}

    def forms(number):
        return [functools.partial(one, job, work) for job, work in made.items() if job[0] == number]

    serve(sum(work.done() for work in made.values()), forms)
    # Compilations that go on are of no use to anybody.
    sys.stdout.flush()
    os._exit(0)


def check():
    """Losses and gradients at the sizes, parameters and columns of scripts/parity.py."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
    import parity

    for learner in LEARNERS:
        for form in ("plain", "products"):
            choices = {"extraction": "ddpg-bc"}
            if learner == "tmd":
                choices["head"] = "mrn"
            losses, gradients = parity.measure(getattr(parity, learner), choices)
            case = {
                "learner": learner,
                "state": parity.STATE,
                "action": parity.ACTION,
                "hidden": [6],
                "latent": 8,
                "components": 1,
                "group": 4,
                "discount": parity.DISCOUNT,
                "form": form,
            }
            values = parameters(jax.random.key(0), case)
            values["policy"] = mlp(jax.random.key(0), [2 * parity.STATE, 5, parity.ACTION])
            values = {arena: filled(tree, f"parameters {arena}", parity) for arena, tree in values.items()}
            batch = Columns(parity)
            ours = LEARNERS[learner](values, batch, case)
            total = lambda values: sum(LEARNERS[learner](values, batch, case).values())
            slopes = jax.grad(total)(values)
            for name, loss in losses.items():
                assert abs(float(ours[name]) - loss) < 1e-9, (learner, form, name, float(ours[name]), loss)
            for arena, expected in gradients.items():
                found = jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(slopes[arena])])
                assert found.shape == (len(expected),), (learner, arena, found.shape, len(expected))
                worst = float(jnp.abs(found - jnp.asarray(expected)).max())
                assert worst < 1e-9, (learner, form, arena, worst)
            print(f"{learner}, {form}: losses and gradients are those of scripts/parity.py")


class Columns(dict):
    """The columns of scripts/parity.py, by name."""

    def __init__(self, parity):
        self.parity = parity

    def __getitem__(self, name):
        kind = name.split()[0]
        width = {"state": self.parity.STATE, "reached": 1}.get(kind, self.parity.ACTION)
        return self.parity.column(name, width)


def filled(tree, name, parity):
    """The numbers of an arena, leaf after leaf."""
    leaves, shape = jax.tree.flatten(tree)
    numbers = parity.numbers(name, sum(leaf.size for leaf in leaves))
    parts = np.split(numbers, np.cumsum([leaf.size for leaf in leaves])[:-1])
    return jax.tree.unflatten(shape, [jnp.asarray(part).reshape(leaf.shape) for part, leaf in zip(parts, leaves)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compares losses and gradients with parity.py")
    parser.add_argument("--cases", help="the report of `isochrone bench --json`")
    parser.add_argument("--patience", type=float, default=3600.0, help="seconds that all may compile")
    parser.add_argument("--modes", default="scan,call")
    parser.add_argument("--forms", default="plain,products")
    parser.add_argument("--steps", type=int, default=0, help="updates in one call [scan: 500 on a GPU, fewer where batches or seeds are many, 2 on the CPU; call: 100, 1]")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long each is timed")
    options = parser.parse_args()
    check() if options.check else measure(options)


if __name__ == "__main__":
    main()
