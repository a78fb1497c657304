"""Arithmetic of series: arrays in, one frozen answer out. Does a curve grow without end, is it a saw-tooth?"""
