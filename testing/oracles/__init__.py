"""What the answer should be, from a format's definition, by code that layers do not share."""
