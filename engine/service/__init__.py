"""Use cases: one function is one transaction.

They act on what `domain` decides; whoever calls them owns order, retries and hints.
"""
