"""What requests may hold: pydantic models, one module an aggregate; the only place for pydantic."""
