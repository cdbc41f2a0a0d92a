"""The HTTP side of Wakeful: admission, credentials, bodies, routes, OpenAPI.

The web owns no write. A handler turns a request into a command, hands it to the engine and turns
the answer into JSON; a client that leaves ends the waiting, never the work (architecture, HTTP).
"""
