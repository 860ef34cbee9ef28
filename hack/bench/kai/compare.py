"""Builds KAI's program and ours, runs both on the same clusters, prints a table. Called by `run`."""
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from datetime import datetime, timezone

HERE = os.path.dirname(os.path.abspath(__file__))
CLUSTERS = ['B1', 'B2', 'B3', 'B4', 'V1', 'V2', 'V3']
# Ratios of processor time that are asked for, and most milliseconds of ours.
RATIO = {'B1': 100, 'B2': 100, 'B3': 100, 'B4': 50}
MOST_MS = {'V1': 20, 'V2': 20, 'V3': 100, 'series 10000': 100}
MOST_EVICTIONS = {'V3': 40}
# What must come out: bind/evict/pipeline. Where there is no room, nothing.
EXACT = {'V1': '0/0/0', 'V2': '0/0/0'}
# A run of more CPU seconds than this is not repeated.
LONG = 5
# Runs of ours, of which the best counts; KAI has three.
OURS = 5
SERIES_KAI = [250, 500, 1000]
# From the first of these on, cost may grow as n log n and no faster. Two pods a node: 10,000 nodes have 2,100 jobs.
SERIES_OURS = [1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000]
# A few milliseconds at the beginning are the measure of all; a quarter is noise and caches that no longer hold it all. Growth that is
# worse than n log n shows up as far more over two powers of ten: n^1.2 as 1.5, n^1.5 as 6.
NOISE = 1.25


def sh(*command, **more):
    return subprocess.run(command, check=True, **more)


def build(with_kai):
    """Paths of both programs."""
    target = os.path.abspath(os.environ.get('CARGO_TARGET_DIR', 'target'))
    kai = os.path.join(target, 'bench-kai')
    if with_kai:
        sh('go', 'build', '-o', kai, '.', cwd=HERE)
    sh('cargo', 'build', '--quiet', '--release', '-p', 'muster-scheduler', '--example', 'cycle')
    return kai, os.path.join(target, 'release', 'examples', 'cycle')


def cluster(work, *name):
    """A cluster of this instant: KAI has no other clock than the wall's."""
    path = os.path.join(work, '-'.join(name) + '.json')
    now = datetime.now(timezone.utc).strftime('%Y-%m-%dT%H:%M:%SZ')
    with open(path, 'w') as out:
        sh(sys.executable, os.path.join(HERE, 'clusters.py'), *name, '--now', now, stdout=out)
    return path


def once(program, path, limit):
    """What a program prints; none if it needs longer than the limit."""
    try:
        done = sh(program, path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=limit)
    except subprocess.TimeoutExpired:
        return None
    return json.loads(done.stdout)


def measure(program, path, limit=None, runs=3):
    """The best of some runs; of one, if that takes long."""
    best = once(program, path, limit)
    for _ in range(runs - 1):
        if best is None or best['cpuSeconds'] > LONG:
            break
        again = once(program, path, limit)
        if again and again['cpuSeconds'] < best['cpuSeconds']:
            best = again
    return best


def decisions(result):
    return f"{result['bind']}/{result['evict']}/{result['pipeline']}"


def line(name, kai, ours, limit, found):
    """One row of the table; what is wrong is added to `found`."""
    cells = [f'{name:<14}', f"{ours['cpuSeconds'] * 1000:>10.1f}", f"{ours['peakMiB']:>8.0f}", f'{decisions(ours):>14}']
    if kai is None:
        cells += [f"{'-' if limit is None else f'> {limit:.0f} s':>10}", f"{'':>8}", f"{'':>14}", f"{'':>8}", f"{'':>8}"]
    else:
        ratio, memory = kai['cpuSeconds'] / max(ours['cpuSeconds'], 1e-6), kai['peakMiB'] / ours['peakMiB']
        cells += [f"{kai['cpuSeconds'] * 1000:>10.1f}", f"{kai['peakMiB']:>8.0f}", f'{decisions(kai):>14}', f'{ratio:>7.0f}x', f'{memory:>7.1f}x']
        if name in RATIO or name.startswith('series'):
            if decisions(kai) != decisions(ours):
                found.append(f'{name}: {decisions(ours)} decisions, not {decisions(kai)}')
        if name in RATIO:
            if ratio < RATIO[name]:
                found.append(f'{name}: {ratio:.0f} times as fast, not {RATIO[name]}')
            if memory < 5:
                found.append(f'{name}: 1/{memory:.1f} of the memory, not 1/5')
    if ours['cpuSeconds'] * 1000 > MOST_MS.get(name, float('inf')):
        found.append(f"{name}: {ours['cpuSeconds'] * 1000:.1f} ms, not {MOST_MS[name]}")
    if decisions(ours) != EXACT.get(name, decisions(ours)):
        found.append(f'{name}: {decisions(ours)} decisions, not {EXACT[name]}')
    if ours['evict'] > MOST_EVICTIONS.get(name, float('inf')):
        found.append(f"{name}: {ours['evict']} evictions, not {MOST_EVICTIONS[name]}")
    print(' '.join(cells), flush=True)


def growth(series, found):
    """What a cycle takes for each node and bit of their number: no more than at the beginning, but for noise."""
    parts = {size: seconds / (size * math.log2(size)) for size, seconds in series.items()}
    first = parts.get(SERIES_OURS[0])
    if first is None:
        return
    told = ', '.join(f'{size}: {part / first:.2f}' for size, part in parts.items())
    print(f'cost / (n log n), of that at {SERIES_OURS[0]} nodes, limit {NOISE}: {told}')
    found += [f'series {size}: {part / first:.2f} times n log n' for size, part in parts.items() if part > NOISE * first]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--ours', action='store_true', help='the engine alone')
    parser.add_argument('--limit', type=float, default=300, help='seconds that KAI may take for a cycle of B1 to B4')
    parser.add_argument('--verdict-limit', type=float, default=30, help='and for V1 to V3, where it may never end')
    parser.add_argument('names', nargs='*', metavar='CLUSTER', help='of ' + ' '.join(CLUSTERS) + ' series')
    told = parser.parse_args()
    names = told.names or CLUSTERS + ['series']
    found, series = [], {}
    with tempfile.TemporaryDirectory() as work:
        kai, ours = build(not told.ours)
        print(f"{'cluster':<14} {'ours ms':>10} {'MiB':>8} {'bind/evict/p.':>14} {'KAI ms':>10} {'MiB':>8} {'bind/evict/p.':>14} {'time':>8} {'memory':>8}")
        for name in names:
            sizes = SERIES_OURS + SERIES_KAI if name == 'series' else [None]
            for size in sorted(set(sizes), key=lambda size: size or 0):
                asked = (name, str(size)) if size else (name,)
                path = cluster(work, *asked)
                peer = not told.ours and (size is None or size in SERIES_KAI)
                limit = told.verdict_limit if name[0] == 'V' else told.limit
                theirs = measure(kai, path, limit) if peer else None
                mine = measure(ours, path, runs=OURS)
                line(' '.join(asked), theirs, mine, limit if peer else None, found)
                if size and mine['bind'] != 2 * size:
                    found.append(f"{name} {size}: {mine['bind']} pods are bound, not {2 * size}")
                if size in SERIES_OURS:
                    series[size] = mine['cpuSeconds']
                os.remove(path)
    growth(series, found)
    for problem in found:
        print('below what is asked for:', problem)
    sys.exit(1 if found else 0)


if __name__ == '__main__':
    main()
