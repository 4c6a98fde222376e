"""What a space must survive, at full size: ``make torture`` (R1 to R20)."""
