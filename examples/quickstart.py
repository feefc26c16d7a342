# %% [markdown]
# # From recorded trajectories to steps, a map and a policy
#
# Two rooms share a wall with a door. We record a point that walks from place to place, learn how many steps
# apart any two places are, draw a map, let the learned policy walk, and export everything to ONNX.

# %%
import numpy as np

import isochrone

# %% [markdown]
# ## Your own arrays
#
# Everything starts from rows of observations, the actions taken, and where each trajectory ends. Here
# a small simulator writes them; yours come from a robot, a game or a log.

# %%
DOOR, SPEED = (0.3, 0.7), 0.05


def move(place, action):
    """One step: along the wall at x = 0.5, unless it leads through the door."""
    ahead = np.clip(place + SPEED * np.clip(action, -1, 1), 0, 1)
    crosses = (place[0] < 0.5) != (ahead[0] < 0.5)
    is_open = DOOR[0] < ahead[1] < DOOR[1]
    return np.array([place[0], ahead[1]]) if crosses and not is_open else ahead


def toward(place, target):
    """A noisy action toward a target, through the door if it is in the other room."""
    if (place[0] < 0.5) != (target[0] < 0.5) and not (abs(place - [0.5, 0.5]) < [0.06, 0.15]).all():
        target = np.array([0.5, 0.5])
    way = target - place
    return np.clip(way / max(np.linalg.norm(way), SPEED) + random.normal(0, 0.3, 2), -1, 1)


random = np.random.default_rng(0)
observations, actions, terminals = [], [], []
for trajectory in range(200):
    place, target = random.uniform(0, 1, 2), random.uniform(0, 1, 2)
    for step in range(50):
        if np.linalg.norm(place - target) < 0.05:
            target = random.uniform(0, 1, 2)
        action = toward(place, target)
        observations.append(place)
        actions.append(action)
        terminals.append(step == 49)
        place = move(place, action)

data = isochrone.Dataset.from_arrays(observations, actions, terminals)
print(data)

# %% [markdown]
# ## Fit
#
# `fit` draws a bar in terminals and notebooks. With `out="runs/rooms"` it would keep checkpoints, stop
# and save at Ctrl-C, and resume.

# %%
model = isochrone.fit(data, "atlas", steps=1000, discount=0.95)
print(model)

# %% [markdown]
# ## Steps
#
# The way to a place behind the wall leads through the door: it takes more steps than the way to a place
# as far away in the same room.

# %%
start, same_room, behind_the_wall = [0.4, 0.05], [0.1, 0.05], [0.7, 0.05]
print(f"same room       {model.steps(start, same_room):5.1f} steps")
print(f"behind the wall {model.steps(start, behind_the_wall):5.1f} steps")
table = model.pairwise(data.observations[:500], data.observations[-500:])
print("all pairs of 500 states:", table.shape)

# %% [markdown]
# Whether the numbers can be read as steps is checked on trajectories that were held out of training, and
# whether they obey the triangle inequality on triples of states.

# %%
print("reads as", model.calibration()["reading"])
print("violations of the triangle inequality:", model.audit(triples=100_000)["violations"])

# %% [markdown]
# ## A map
#
# The data on the left; on the right, steps to the star and a path planned along recorded steps.

# %%
model.draw_map("map.png", start, behind_the_wall)
print("wrote map.png and map.svg")
# notebook: from IPython.display import Image
# notebook: Image("map.png", width=700)

# %% [markdown]
# ## The policy
#
# `act` takes an observation and a goal and says what to do. We let it walk from one room to the other.

# %%
reached = 0
for episode in range(50):
    place = random.uniform([0.0, 0.0], [0.45, 1.0])
    goal = random.uniform([0.55, 0.0], [1.0, 1.0])
    for step in range(100):
        place = move(place, model.act(place, goal))
        if np.linalg.norm(place - goal) < 0.1:
            reached += 1
            break
print(f"reached {reached} of 50 goals behind the wall")

# %% [markdown]
# ## ONNX
#
# One file with the distance and the policy, for C++, a browser or a robot.

# %%
model.export_onnx("rooms.onnx")
model.save("rooms.safetensors")
print("wrote rooms.onnx and rooms.safetensors")
