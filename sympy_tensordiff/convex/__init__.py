"""Certificates of convexity, read off Hessians: signs over domains, rules with side conditions, the certificate."""
