"""`berth doctor`: finds pods that stay parked although they would fit."""
