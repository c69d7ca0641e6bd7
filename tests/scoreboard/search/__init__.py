"""Constants chosen without the family that they are scored on."""
