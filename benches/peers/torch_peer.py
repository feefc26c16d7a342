#!/usr/bin/env python3
"""The updates of CMD-1, CMD-2, QRL, TMD and GCIQL in PyTorch, timed at the sizes of `isochrone bench`.

    python benches/peers/torch_peer.py --check                # against scripts/parity.py; needs jax
    isochrone bench --json … > report.json; echo 0 | python benches/peers/torch_peer.py --cases report.json

Times cases of a bench report, those whose numbers stand on standard input (see rounds.py). Every tensor has the seeds as its first dimension, so that several are batched products. On a GPU data and
draws stay there and an update is one captured CUDA graph; on the CPU it runs eagerly. All pairs are
reduced in compiled kernels; the backward of the norm is two products, that of the maximum a scatter.
"""

import argparse
import functools
import math
import pathlib
import sys
import time

import torch
from torch.nn.functional import softplus

from rounds import cases_of, serve, timed

DISCOUNT, LENGTH, CLONING = 0.99, 100, 0.03
BEGAN = time.perf_counter()


# Networks: a list of (weight, bias), each with the seeds first.


def mlp(seeds, widths, last=1.0):
    layers = []
    for at, (inputs, outputs) in enumerate(zip(widths, widths[1:])):
        bound = math.sqrt(3 / inputs) * (last if at == len(widths) - 2 else 1.0)
        weight = (2 * torch.rand(seeds, inputs, outputs) - 1) * bound
        layers.append((weight, torch.zeros(seeds, 1, outputs)))
    return layers


def apply(layers, *parts):
    x = torch.cat(parts, -1)
    for weight, bias in layers[:-1]:
        x = torch.baddbmm(bias, x, weight).relu_()
    weight, bias = layers[-1]
    return torch.baddbmm(bias, x, weight)


def hold(tree):
    if isinstance(tree, torch.Tensor):
        return tree.detach()
    return type(tree)(hold(part) for part in tree)


def leaves(tree):
    if isinstance(tree, torch.Tensor):
        return [tree]
    return [leaf for part in tree for leaf in leaves(part)]


# Heads.


def mrn(x, y, components):
    """Of corresponding rows."""
    d = x - y
    d = d.reshape(*d.shape[:-1], components, -1)
    v, u = d.chunk(2, -1)
    return (torch.linalg.vector_norm(u, dim=-1) + v.relu().amax(-1)).mean(-1)


def reduced(v, vy, u, uy):
    """Largest differences, where they are, and norms; compiled on a GPU, so that no difference is kept."""
    best, pick = (v[:, :, None] - vy[:, None]).max(-1)
    return best, pick, ((u[:, :, None] - uy[:, None]) ** 2).sum(-1).sqrt()


compiled = [reduced]


def blocks(x, components):
    """Seeds and components first, then rows: halves of maximum and norm."""
    seeds, rows, _ = x.shape
    x = x.reshape(seeds, rows, components, -1).transpose(1, 2).reshape(seeds * components, rows, -1)
    return x.chunk(2, -1)


class Pairwise(torch.autograd.Function):
    @staticmethod
    def forward(context, x, y, components):
        (v, u), (vy, uy) = blocks(x, components), blocks(y, components)
        best, pick, norm = compiled[0](v, vy, u, uy)
        context.save_for_backward(u, uy, norm, pick, best > 0)
        context.components = components
        seeds = x.shape[0]
        return (norm + best.relu()).reshape(seeds, components, *norm.shape[1:]).mean(1)

    @staticmethod
    def backward(context, gradient):
        u, uy, norm, pick, positive = context.saved_tensors
        components, seeds = context.components, gradient.shape[0]
        share = (gradient / components)[:, None].expand(-1, components, -1, -1).reshape(norm.shape)
        weight = torch.where(norm > 0, share / norm, 0.0)
        du = u * weight.sum(2)[..., None] - weight @ uy
        duy = uy * weight.sum(1)[..., None] - weight.mT @ u
        picked = torch.where(positive, share, 0.0)
        dv = torch.zeros_like(u).scatter_add_(2, pick, picked)
        dvy = torch.zeros_like(uy).scatter_add_(2, pick.mT.contiguous(), picked.mT.contiguous())

        def whole(v, u):
            both = torch.cat([v, u], -1).reshape(seeds, components, v.shape[1], -1)
            return both.transpose(1, 2).reshape(seeds, v.shape[1], -1)

        return whole(dv, du), whole(-dvy, duy), None


def iqe(raw, x, y, group):
    alpha = raw.sigmoid()
    x, y = (z.reshape(*z.shape[:-1], -1, group) for z in (x, y))
    low, order = x.sort(-1)
    high = torch.maximum(low, y.gather(-1, order))
    reach = high.cummax(-1).values
    before = torch.cat([low[..., :1], reach[..., :-1]], -1)
    length = (high - torch.maximum(low, before)).relu().sum(-1)
    return alpha * length.mean(-1) + (1 - alpha) * length.amax(-1)


# What learners share. A loss is one number a seed.


def diagonal(matrix):
    return matrix.diagonal(dim1=1, dim2=2)


def symmetric(logits):
    own = diagonal(logits)
    return (logits.logsumexp(2) - own).mean(1) + (logits.logsumexp(1) - own).mean(1)


def extracted(policy, batch, goal, after):
    """DDPG+BC on goals `goal`; `after(a)` is the distance from (s, a)."""
    mean = apply(policy, batch["state start"], goal)
    d = after(mean.clamp(-1.0, 1.0))
    half = 0.5 * math.log(2 * math.pi)
    likely = (-0.5 * (batch["action start"] - mean) ** 2 - half).sum(-1)
    return d.mean(1) / (d.abs().mean(1) + 1e-6).detach() - CLONING * likely.mean(1)


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
    logits = apply(p["potential"], goal).mT - Pairwise.apply(starts, ends, components)
    policy = encoded_policy(p["policy"], p["distance"], batch, components)
    return {"critic": symmetric(logits), "policy": policy}


def cmd2(p, batch, case):
    s, a, g = batch["state start"], batch["action start"], batch["state future"]
    psi = apply(p["goal_encoder"], g)
    logits = apply(p["start_encoder"], s, a) @ psi.mT
    with torch.no_grad():
        at_goal = (apply(p["start_encoder"], g, batch["action future"]) * psi).sum(-1)
        target = (at_goal[:, None] - logits).relu()
    starts = apply(p["distance"], s, a)
    ends = apply(p["distance"], g, batch["permuted future 0"])
    d = Pairwise.apply(starts, ends, case["components"])
    size = d.shape[-1]
    excess = (diagonal(d - target).relu() ** 2).mean(1)
    below = (target - d).relu() ** 2
    shortfall = (below.sum((1, 2)) - diagonal(below).sum(1)) / (size * (size - 1))
    multiplier = (0.01 + softplus(p["multiplier"][:, 0])).clamp(max=1e4)
    return {
        "critic": symmetric(logits),
        "distance": excess + shortfall / multiplier.detach(),
        "multiplier": multiplier * (0.1 - excess).detach(),
        "policy": encoded_policy(p["policy"], p["distance"], batch, case["components"]),
    }


def qrl(p, batch, case):
    encoder, raw, dynamics = p["distance"]
    head = lambda x, y, raw=raw: iqe(raw, x, y, case["group"])
    z, following, far = (apply(encoder, batch[f"state {rows}"]) for rows in ("start", "next", "random"))
    push = (100.0 * softplus(5.0 - head(z, far) / 100.0)).mean(1)
    excess = ((head(z, following) - 1.0).relu() ** 2).mean(1)
    multiplier = softplus(p["multiplier"][:, 0])
    guess = z + apply(dynamics, z, batch["action start"])
    error = 0.5 * (head(guess, following) + head(following, guess)).mean(1)
    held, still = hold(p["distance"]), z.detach()
    goal = apply(held[0], batch["state mixed0"])
    after = lambda a: head(still + apply(held[2], still, a), goal, held[1])
    return {
        "critic": push + multiplier.detach() * excess + error,
        "multiplier": multiplier * (0.0625 - excess).detach(),
        "policy": extracted(p["policy"], batch, batch["state mixed0"], after),
    }


def tmd(p, batch, case):
    components, size = case["components"], math.sqrt(case["latent"])
    s, a, goal = batch["state start"], batch["action start"], batch["state future"]
    loss = 0.0
    for phi, psi in p["distance"]:
        starts, goals = apply(phi, s, a), apply(psi, goal)
        d = Pairwise.apply(starts, goals, components) / size
        with torch.no_grad():
            left = Pairwise.apply(apply(psi, batch["state next"]), goals, components) / size
        gap = d - left
        inside = torch.where(gap > 3.0, 0.0, gap)
        terms = torch.where(gap > 3.0, gap, case["discount"] * inside.exp() - d)
        backup = 0.5 * terms.mean((1, 2)) + 0.5 * diagonal(terms).mean(1)
        contrast = ((-d).logsumexp(1) + diagonal(d)).mean(1)
        invariance = (mrn(apply(psi, s), starts, components) / size).mean(1)
        loss = loss + contrast + 0.1 * backup + 0.1 * invariance
    held, aim = hold(p["distance"]), batch["state mixed0"]
    each = lambda a: [mrn(apply(phi, s, a), apply(psi, aim), components) / size for phi, psi in held]
    after = lambda a: torch.stack(each(a)).amax(0)
    return {"critic": loss, "policy": extracted(p["policy"], batch, aim, after)}


def gciql(p, batch, case):
    s, a, g, aim = (batch[name] for name in ("state start", "action start", "state mixed0", "state mixed1"))
    q = lambda networks, a, g: torch.stack([apply(network, s, a, g)[..., 0] for network in networks])
    there = batch["reached start mixed0"][..., 0]
    with torch.no_grad():
        least = q(p["target"], a, g).amin(0)
        ahead = apply(p["value"], batch["state next"], g)[..., 0]
        y = -(1 - there) + case["discount"] * (1 - there) * ahead
    u = least - apply(p["value"], s, g)[..., 0]
    value = ((0.9 - (u < 0).to(u.dtype)).abs() * u**2).mean(1)
    loss = value + ((y - q(p["critic"], a, g)) ** 2).mean(-1).sum(0)
    held = hold(p["critic"])
    policy = extracted(p["policy"], batch, aim, lambda a: -q(held, a, aim).amin(0))
    return {"critic": loss, "policy": policy}


LEARNERS = {"cmd1": cmd1, "cmd2": cmd2, "qrl": qrl, "tmd": tmd, "gciql": gciql}


def parameters(seeds, case):
    state, action, hidden, latent = (case[name] for name in ("state", "action", "hidden", "latent"))
    network = lambda inputs, outputs, last=1.0: mlp(seeds, [inputs, *hidden, outputs], last)
    both = state + action
    values = {
        "cmd1": lambda: {"distance": network(both, latent), "potential": network(state, 1)},
        "cmd2": lambda: {
            "distance": network(both, latent),
            "start_encoder": network(both, latent),
            "goal_encoder": network(state, latent),
            "multiplier": torch.zeros(seeds, 1),
        },
        "qrl": lambda: {
            "distance": [network(state, latent), torch.zeros(seeds, 1), network(latent + action, latent, 0.0)],
            "multiplier": torch.full((seeds, 1), math.log(math.expm1(0.01))),
        },
        "tmd": lambda: {"distance": [(network(both, latent), network(state, latent)) for _ in range(2)]},
        "gciql": lambda: {
            "value": network(2 * state, 1),
            "critic": [network(2 * state + action, 1) for _ in range(2)],
            "target": [network(2 * state + action, 1) for _ in range(2)],
        },
    }[case["learner"]]()
    return values | {"policy": network(2 * state, action, 0.01)}


RATES = {"cmd2 multiplier": 0.1, "qrl multiplier": 1e-2}


class Trainer:
    """Parameters, optimizer and one update."""

    def __init__(self, case, data):
        self.case, self.data = case, data
        self.device = data[0].device
        self.values = parameters(case["seeds"], case)
        groups = []
        for arena, tree in self.values.items():
            moves = arena != "target"
            for leaf in leaves(tree):
                leaf.requires_grad_(moves)
            if moves:
                rate = RATES.get(f"{case['learner']} {arena}", 3e-4)
                groups.append({"params": leaves(tree), "lr": rate})
        on_gpu = self.device.type == "cuda"
        self.optimizer = torch.optim.Adam(groups, fused=True, capturable=on_gpu)

    def update(self):
        case = self.case
        batch = draw(self.data, case["seeds"], case["batch"], case["learner"])
        self.optimizer.zero_grad(set_to_none=False)
        total = sum(loss.sum() for loss in LEARNERS[case["learner"]](self.values, batch, case).values())
        total.backward()
        self.optimizer.step()
        if "target" in self.values:
            with torch.no_grad():
                torch._foreach_lerp_(leaves(self.values["target"]), leaves(self.values["critic"]), 0.005)
        return total


# Batches: the laws of the library's sampler, for trajectories of one length.


def draw(data, seeds, size, learner):
    states, actions = data
    device, rows = states.device, states.shape[0]
    whole = lambda low, high: torch.randint(low, high, (seeds, size), device=device)
    share = lambda: torch.rand(seeds, size, device=device)
    place = whole(0, LENGTH - 1)
    start, rest = whole(0, rows // LENGTH) * LENGTH + place, LENGTH - 1 - place

    def future():
        cut = share() * (1 - DISCOUNT ** (rest + 1.0))
        return start + torch.minimum((torch.log1p(-cut) / math.log(DISCOUNT)).long(), rest)

    def mixed(current, ahead):
        choice = share()
        goal = torch.where(choice < current + ahead, future(), whole(0, rows))
        return torch.where(choice < current, start, goal) if current else goal

    permuted = lambda goal: actions[goal.gather(1, share().argsort(1))]
    batch = {"state start": states[start], "action start": actions[start]}
    aim = mixed(0.0, 0.5)
    if learner in ("cmd1", "cmd2"):
        goal = future()
        batch |= {"state future": states[goal], "permuted future 0": permuted(goal)}
        batch |= {"state mixed0": states[aim], "permuted mixed0 0": permuted(aim)}
        if learner == "cmd2":
            batch["action future"] = actions[goal]
        return batch
    batch["state next"] = states[start + 1]
    if learner == "gciql":
        goal = mixed(0.2, 0.5)
        reached = (goal == start).float()[..., None]
        return batch | {"state mixed0": states[goal], "state mixed1": states[aim], "reached start mixed0": reached}
    if learner == "qrl":
        batch["state random"] = states[whole(0, rows)]
    else:
        batch["state future"] = states[future()]
    return batch | {"state mixed0": states[aim]}


# Timing.


def captured(trainer):
    """One update as a CUDA graph; where that fails, why, and the update as it is."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            trainer.update()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        trainer.loss = trainer.update()
    return graph.replay


def prepared(case, options):
    """A trainer, its step as it is timed, and how it runs."""
    torch.manual_seed(0)
    device = torch.device(options.device)
    torch.set_default_device(device)
    head = case["config"].get("head", {})
    case |= {"components": head.get("components", 1), "group": head.get("group", 8), "discount": DISCOUNT}
    data = tuple(2 * torch.rand(case["rows"], case[name]) - 1 for name in ("state", "action"))
    trainer, mode = Trainer(case, data), "eager"
    step = trainer.update
    if device.type == "cuda":
        try:
            step, mode = captured(trainer), "graph"
        except RuntimeError as error:
            print(f"{case['learner']}: not captured: {str(error).splitlines()[0]}", file=sys.stderr)
            trainer = Trainer(case, data)
            step = trainer.update
    step()
    return trainer, step, mode


def one(made, options):
    trainer, step, mode = made
    on_gpu = options.device.startswith("cuda")
    steps = 100 if on_gpu else 1

    def run():
        for _ in range(steps):
            step()
        if on_gpu:
            torch.cuda.synchronize()

    times = timed(run, steps, options.seconds)
    sound = all(bool(leaf.isfinite().all()) for leaf in leaves(list(trainer.values.values())))
    name = {"peer": "torch", "version": torch.__version__, "mode": mode, "form": "products"}
    return name | times | {"finite": sound}


def measure(options):
    torch.set_float32_matmul_precision("high")
    if options.device.startswith("cuda"):
        compiled[0] = torch.compile(reduced, dynamic=False)
    made = {}
    for number, case in enumerate(cases_of(options.cases)):
        since = time.perf_counter()
        if case["learner"] in LEARNERS and since - BEGAN < options.patience:
            made[number] = prepared(case, options)
            print(f"{case['learner']} {case['batch']}: {time.perf_counter() - since:.0f} s", file=sys.stderr)
    serve(len(made), lambda number: [functools.partial(one, made[number], options)] if number in made else [])


def check():
    """Losses and gradients at the sizes, parameters and columns of scripts/parity.py, in float64."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
    import numpy as np
    import parity

    torch.set_default_dtype(torch.float64)
    for learner, losses_of in LEARNERS.items():
        choices = {"extraction": "ddpg-bc"} | ({"head": "mrn"} if learner == "tmd" else {})
        losses, gradients = parity.measure(getattr(parity, learner), choices)
        sizes = {"state": parity.STATE, "action": parity.ACTION, "hidden": [6], "latent": 8}
        case = sizes | {"learner": learner, "components": 1, "group": 4, "discount": parity.DISCOUNT}
        values = parameters(1, case)
        values["policy"] = mlp(1, [2 * parity.STATE, 5, parity.ACTION])
        for arena, tree in values.items():
            parts = leaves(tree)
            numbers = parity.numbers(f"parameters {arena}", sum(part.numel() for part in parts))
            for part in parts:
                part.copy_(torch.from_numpy(numbers[: part.numel()]).reshape(part.shape))
                part.requires_grad_()
                numbers = numbers[part.numel() :]

        class Columns(dict):
            def __getitem__(self, name):
                width = {"state": parity.STATE, "reached": 1}.get(name.split()[0], parity.ACTION)
                return torch.from_numpy(np.array(parity.column(name, width)))[None]

        ours = losses_of(values, Columns(), case)
        sum(loss.sum() for loss in ours.values()).backward()
        for name, loss in losses.items():
            value = float(ours[name].detach())
            assert abs(value - loss) < 1e-9, (learner, name, value, loss)
        for arena, expected in gradients.items():
            found = torch.cat([part.grad.reshape(-1) for part in leaves(values[arena])])
            worst = float((found - torch.tensor(expected)).abs().max())
            assert worst < 1e-9, (learner, arena, worst)
        print(f"{learner}: losses and gradients are those of scripts/parity.py")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compares losses and gradients with parity.py")
    parser.add_argument("--cases", help="the report of `isochrone bench --json`")
    parser.add_argument("--patience", type=float, default=3600.0, help="seconds in which cases are prepared")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long each is timed")
    options = parser.parse_args()
    check() if options.check else measure(options)


if __name__ == "__main__":
    main()
