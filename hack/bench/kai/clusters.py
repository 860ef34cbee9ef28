#!/usr/bin/env python3
"""Clusters to measure a scheduler on. The same name, the same cluster, but for its instant.

  clusters.py B1|B2|B3|B4|V1|V2|V3 [--now 2026-01-01T00:00:00Z] > cluster.json
  clusters.py series NODES > cluster.json      the shape of B1, two pods a node

B1  500 nodes of 8 devices, 1,000 pending pods in gangs        B2  2,000 nodes, 60 % full, 2,000 pods, each gang in one rack or block
B3  5,000 nodes, 4,000 pending pods                            B4  500 full nodes; a starved queue claims 256 devices in gangs of 32
V1  B2's cluster and a gang of 64 that no rack could ever hold V2  one that could, but nothing may be taken for it
V3  one for which room can be made
"""
import argparse
import json
import random
import sys
from datetime import datetime, timedelta, timezone

DEVICES = 8
LEVELS = ['topo/zone', 'topo/block', 'topo/rack', 'kubernetes.io/hostname']
PRIORITIES = {'inference': 125, 'build': 100, 'interactive-preemptible': 75, 'train': 50}


class Cluster:
    def __init__(self, now, seed=42):
        self.now, self.random = now, random.Random(seed)
        self.nodes, self.queues, self.groups, self.pods, self.topologies = [], [], [], [], []

    def ago(self, seconds):
        return (self.now - timedelta(seconds=seconds)).strftime('%Y-%m-%dT%H:%M:%SZ')

    def node(self, at, racks):
        name = f'node-{at:05d}'
        has = {'cpu': '128', 'memory': '1024Gi', 'nvidia.com/gpu': str(DEVICES), 'pods': '110'}
        labels = {'kubernetes.io/hostname': name, 'nvidia.com/gpu.count': str(DEVICES), 'nvidia.com/gpu.memory': '80000'}
        if racks:
            labels |= {'topo/rack': f'rack-{at // 16}', 'topo/block': f'block-{at // 128}', 'topo/zone': f'zone-{at // 512}'}
        self.nodes.append({
            'metadata': {'name': name, 'uid': name, 'labels': labels},
            'status': {'allocatable': has, 'capacity': has, 'conditions': [{'type': 'Ready', 'status': 'True'}]},
        })

    def queue(self, name, parent=None, quota=-1):
        free = {'quota': -1, 'limit': -1, 'overQuotaWeight': 1}
        spec = {'displayName': name, 'resources': {'gpu': free | {'quota': quota}, 'cpu': free, 'memory': free}}
        if parent:
            spec['parentQueue'] = parent
        made = self.ago(100_000 - len(self.queues))
        self.queues.append({'metadata': {'name': name, 'uid': name, 'creationTimestamp': made}, 'spec': spec})

    def gang(self, name, queue, places, devices, age, level=None, started=None):
        """A gang with a pod per place; a place is a node's name, or None for a pod that waits."""
        meta = {'name': name, 'namespace': 'default', 'uid': name, 'creationTimestamp': self.ago(age)}
        if started is not None:
            meta['annotations'] = {'kai.scheduler/last-start-timestamp': self.ago(started)}
        spec = {'queue': queue, 'minMember': len(places), 'priorityClassName': 'train'}
        if level:
            spec['topologyConstraint'] = {'topology': 'cluster', 'requiredTopologyLevel': level}
        self.groups.append({'metadata': meta, 'spec': spec})
        for at, node in enumerate(places):
            self.pod(f'{name}-{at}', name, devices, age if node is None else 90_000, node)

    def pod(self, name, group, devices, age, node):
        asks = {'cpu': '1', 'memory': '1Gi', 'nvidia.com/gpu': str(devices)}
        notes = {'pod-group-name': group}
        spec = {'schedulerName': 'kai-scheduler', 'containers': [{'name': 'main', 'resources': {'requests': asks}}]}
        if node:
            notes['received-resource-type'] = 'Regular'
            spec['nodeName'] = node
        self.pods.append({
            'metadata': {'name': name, 'namespace': 'default', 'uid': name, 'creationTimestamp': self.ago(age), 'annotations': notes, 'labels': {}},
            'spec': spec, 'status': {'phase': 'Running' if node else 'Pending'},
        })

    def fill(self, part, queue, size):
        """Whole nodes, one pod each, in gangs of `size`."""
        names = [node['metadata']['name'] for node in self.nodes]
        chosen = self.random.sample(names, int(len(names) * part))
        for at in range(0, len(chosen), size):
            self.gang(f'run-{queue}-{at:05d}', queue, chosen[at:at + size], DEVICES, 90_000 - at % 1000, started=3600)

    def pending(self, pods, sizes, level=lambda size: None):
        """Gangs of random sizes, in eight teams in turn."""
        at = 0
        while pods > 0:
            size = min(pods, self.random.choice(sizes))
            self.gang(f'job-{at:04d}', f'team-{at % 8}', [None] * size, 1, 5000 - at, level(size))
            pods, at = pods - size, at + 1

    def teams(self, quota):
        self.queue('root')
        for team in range(8):
            self.queue(f'team-{team}', 'root', quota)

    def racks(self):
        levels = [{'nodeLabel': level} for level in LEVELS]
        self.topologies.append({'metadata': {'name': 'cluster'}, 'spec': {'levels': levels}})

    def document(self):
        classes = [{'metadata': {'name': name}, 'value': value} for name, value in PRIORITIES.items()]
        return {'now': self.ago(0), 'nodes': self.nodes, 'queues': self.queues, 'podGroups': self.groups, 'pods': self.pods,
                'topologies': self.topologies, 'priorityClasses': classes}


def build(name, now, nodes):
    cluster = Cluster(now)
    nodes = {'B1': 500, 'B2': 2000, 'B3': 5000, 'B4': 500, 'V1': 2000, 'V2': 2000, 'V3': 2000}.get(name, nodes)
    racks = name in ('B2', 'V1', 'V2', 'V3')
    for at in range(nodes):
        cluster.node(at, racks)
    if name == 'B4':
        cluster.queue('root')
        cluster.queue('greedy', 'root', 0)
        cluster.queue('starving', 'root', 256)
        cluster.fill(1.0, 'greedy', 4)
        for claim in range(8):
            cluster.gang(f'claim-{claim}', 'starving', [None] * 32, 1, 1000 - claim)
        return cluster.document()
    cluster.teams(nodes)
    if racks:
        cluster.racks()
        cluster.fill(0.6, 'team-0', 8)
    if name == 'B2':
        cluster.pending(2000, [8, 16, 32, 64], lambda size: 'topo/rack' if size <= 32 else 'topo/block')
    elif name[0] == 'V':
        queue = 'team-0' if name == 'V2' else 'team-1'
        cluster.gang('gang', queue, [None] * 64, 4 if name == 'V1' else 2, 100, 'topo/rack')
    else:
        cluster.pending({'B1': 1000, 'B3': 4000}.get(name, 2 * nodes), [4, 8, 16])
    return cluster.document()


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('name', choices=['B1', 'B2', 'B3', 'B4', 'V1', 'V2', 'V3', 'series'])
    parser.add_argument('nodes', type=int, nargs='?', default=1000)
    parser.add_argument('--now', default='2026-01-01T00:00:00Z')
    told = parser.parse_args()
    now = datetime.strptime(told.now, '%Y-%m-%dT%H:%M:%SZ').replace(tzinfo=timezone.utc)
    json.dump(build(told.name, now, told.nodes), sys.stdout, separators=(',', ':'))
