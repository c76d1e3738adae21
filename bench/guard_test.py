"""What bench/guard.py lets pass, and what not."""

import unittest

from guard import judge


def run(**ratios):
    bounds = {"get_vs_memcpy": ">= 0.8", "locate_p50_vs_echo": "<= 1.3", "view_p50_us": "<= 5",
              "cpu_seconds_per_gb": "<= 0.5", "checksum_cost_tcp_1m": "<= 0.2"}
    return {"ratios": ratios, "ratio_bounds": {name: bounds[name] for name in ratios}}


def failing(margin=2.0, **ratios):
    return [each["name"] for each in judge(run(**ratios), margin) if not each["kept"]]


class GuardTest(unittest.TestCase):
    def test_a_margin_goes_both_ways(self):
        self.assertEqual(failing(get_vs_memcpy=0.41, locate_p50_vs_echo=2.5), [])
        self.assertEqual(failing(get_vs_memcpy=0.39, locate_p50_vs_echo=2.5), ["get_vs_memcpy"])
        self.assertEqual(failing(get_vs_memcpy=0.41, locate_p50_vs_echo=2.7),
                         ["locate_p50_vs_echo"])
        self.assertEqual(failing(margin=1, get_vs_memcpy=0.79), ["get_vs_memcpy"])

    def test_what_depends_on_the_machine_alone_is_not_judged(self):
        self.assertEqual(judge(run(view_p50_us=400, cpu_seconds_per_gb=30), 2), [])

    def test_a_share_is_allowed_up_to_half(self):
        self.assertEqual(failing(checksum_cost_tcp_1m=0.45), [])
        self.assertEqual(failing(checksum_cost_tcp_1m=0.55), ["checksum_cost_tcp_1m"])


if __name__ == "__main__":
    unittest.main()
