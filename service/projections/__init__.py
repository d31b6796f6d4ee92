"""Views folded from events, which can be thrown away: the folds are pure, `Views` keeps them, `runner` feeds them."""

from service.projections.views import Views

__all__ = ["Views"]
