"""The only SQL of the product: the gateway, named queries, the embedded server, migrations."""
