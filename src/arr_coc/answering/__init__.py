"""Answers: one picture and many questions (`eye`), conversations (`chat`), looking again (`esper`)."""
