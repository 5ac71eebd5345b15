"""Simulated hosts: the real agent on machines, disks and links that exist in memory only.

Thousands of them run in one process, in real or in virtual time. What they do wrong is drawn from a seed.
"""
