"""The one line of JSON that every measured program prints, ours and the peers' alike."""

import json
import resource


def print_rate(count, seconds, unit="tokens", **more):
    """Prints `count` of `unit` done in `seconds`, and the most memory that this process held."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux counts in KiB
    rate = {unit: count, "seconds": seconds, f"{unit}_per_second": count / seconds, "peak_memory_bytes": peak}
    print(json.dumps(rate | more))
