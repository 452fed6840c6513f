"""Random networks, chains, trees and recurrences, judged by the values of their derivatives and by their cost."""
