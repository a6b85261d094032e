# SPDX-License-Identifier: Apache-2.0
"""An agent of PyPI's `smolagents`, whose model is a server: it calls tools, reads what they say, and answers.

Skipped where the package is not installed (scripts/test.sh installs it).
"""
import json
import os
import pathlib
import tempfile

import scripted
from server import Serving, main


def call(name, **arguments):
    return [json.dumps({"name": name, "arguments": arguments})]


# A tool's answer goes into the prompt of the next step, and its last token says what the model does then.
SCRIPTS = {
    "[weather]": call("weather", city="Oslo"),
    "[sum]": call("add", a=19, b=23),
    "[report]": call("final_answer", answer="It rains in Oslo."),
    "[total]": call("final_answer", answer="42"),
}


class Agent(Serving):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.KW = {"models": (scripted.write(pathlib.Path(cls.folder.name) / "scripted", SCRIPTS, context=16384),)}
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.folder.cleanup()

    def agent(self, **kw):
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        s = self.module("smolagents")
        calls = []

        @s.tool
        def weather(city: str) -> str:
            """What the weather is like.

            Args:
                city: where
            """
            calls.append(("weather", city))
            return "rain [report]"

        @s.tool
        def add(a: int, b: int) -> str:
            """The sum of two numbers.

            Args:
                a: the one
                b: the other
            """
            calls.append(("add", a, b))
            return f"{a + b} [total]"

        model = s.OpenAIServerModel(model_id="scripted", api_base=self.server.url + "/v1", api_key="none", temperature=0, max_tokens=200)
        return s.ToolCallingAgent(tools=[weather, add], model=model, max_steps=4, verbosity_level=0, **kw), calls

    def test_calls_and_answers(self):
        agent, calls = self.agent()
        self.assertEqual(agent.run("How is the weather? [weather]"), "It rains in Oslo.")
        self.assertEqual(calls, [("weather", "Oslo")])
        self.assertEqual(str(agent.run("How much is it? [sum]")), "42")
        self.assertEqual(calls[1:], [("add", 19, 23)])
        self.assertEqual(self.server.metric('requests_total{result="failed"}'), 0)

    def test_streamed(self):
        agent, calls = self.agent(stream_outputs=True)
        self.assertEqual(agent.run("How is the weather? [weather]"), "It rains in Oslo.")
        self.assertEqual(calls, [("weather", "Oslo")])


if __name__ == "__main__":
    main()
