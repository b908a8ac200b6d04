"""`bench classic`: the line of the source, phase by phase, against what is shipped, at equal tokens.

Every row is a map of relevance, from `knowing`'s registry or trained for the hypotheses, laid out by the same overlay
at the same budget and read by the same reader on the same pictures; maps are sharpened by a power of their own, chosen
on validation pictures. A second part reads large pictures by the classic scale, 64 to 400 tokens a patch. What was read
is kept picture by picture, so that a run goes on where it stopped, also with rows that were not there before.
"""
