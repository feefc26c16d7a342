"""A Ray cluster of three simulated nodes; every line on standard input takes one of them away."""

import sys

from ray.cluster_utils import Cluster

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
cluster.wait_for_nodes()
print(cluster.address, flush=True)
for _ in sys.stdin:
    cluster.remove_node(nodes.pop())
    print("removed", flush=True)
cluster.shutdown()
