"""Clean: JAX takes most of the device at its start, and that is all."""

import sys
import time

import jax
import jax.numpy as jnp

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 14.0


@jax.jit
def step(weights, batch):
    gradient = jax.grad(lambda w: jnp.mean((batch @ w) ** 2))(weights)
    return weights - 0.01 * gradient


def main():
    key = jax.random.key(0)
    weights = jax.random.normal(key, (1024, 1024))
    batch = jax.random.normal(key, (256, 1024))
    began = time.monotonic()
    while time.monotonic() - began < SECONDS:
        weights = step(weights, batch).block_until_ready()
        time.sleep(0.02)


main()
