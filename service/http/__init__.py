"""What all doors share: errors as problem+json, and who may come to them. Knows no route."""
