"""The command line that asks the target graph which tests a change can break."""
