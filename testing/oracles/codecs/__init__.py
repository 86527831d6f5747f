"""Number formats by their definitions: encoders and decoders, each with its rounding rule."""
