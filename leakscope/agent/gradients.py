"""Unhealthy gradients."""


def look(named_parameters):
    return []
