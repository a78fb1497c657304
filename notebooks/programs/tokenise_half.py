"""Half of the rows of tokenise.py, which fit into memory, and a while in which they are all there."""

import time

from tokenise import Dataset

if __name__ == "__main__":
    dataset = Dataset(40_000)
    time.sleep(5)
    print(f"{len(dataset.samples)} samples")
