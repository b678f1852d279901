// Package modelsim is a model server that does what the prompt asks for: a
// deterministic stand-in for a language model, for tests, benchmarks and
// demonstrations with real agent command lines. It speaks the streaming
// protocols of four of them, all at one address, whole answers too.
//
//	sim := modelsim.New(modelsim.Options{})
//	url, err := sim.Start(ctx, "127.0.0.1:0")
//	defer sim.Close()
//
// An agent finds it by its own settings, with any key; [Environment] returns
// them for those that are variables:
//
//	Claude Code  ANTHROPIC_BASE_URL=url
//	Gemini CLI   GOOGLE_GEMINI_BASE_URL=url
//	Codex        a model provider with base_url url/v1 and wire_api "responses"
//	OpenCode     a provider of @ai-sdk/openai-compatible with baseURL url/v1,
//	             or of @ai-sdk/anthropic
//
// # The script
//
// The last text that the user wrote is a script: steps joined by " THEN ".
//
//	SAY text               answer with text
//	THINK text             a thinking block about text, then an answer
//	TOOL bash: command     call the shell tool
//	TOOL write: file :: content
//	TOOL read: file
//	CALL name {json}       call the tool of that name with that input, in which {{1.id}} is
//	                       the field id of the first result since the prompt
//	TWO                    two shell calls in one answer
//	SUBAGENT script        start a subagent, wait for it
//	SUBAGENTBG script      start a subagent in the background
//	WAITAGENT              wait until a background subagent has reported
//	RECALL                 list the earlier prompts of this conversation
//	SLOW n                 stream four words a second for n seconds
//	HANG n                 say nothing at all for n seconds, then answer
//	DELTAS n               stream n one-word deltas as fast as possible
//	BIG n                  answer with n bytes of text in one block
//	GATE name              stream one delta, then wait until the gate opens
//	ERR400 ERR401 …        answer with that HTTP status (4xx or 5xx)
//	CUT                    cut the connection in the middle of a text
//
// Seconds may be fractions. In the script of a SUBAGENT, and in the input of a
// CALL, the steps are joined by " ANDTHEN ", and for a subagent of the subagent by " ANDANDTHEN ". A
// prompt that begins with none of these words is answered with "You said: …".
// A step with a wrong argument is answered with status 400 and the reason.
//
// A script means the same to every agent. Which of the agent's tools it calls
// goes by the tools that the request offers; one without tools for files gets
// them read and written by its shell. With Codex, whose subagents are all in
// the background, SUBAGENT is a call to start one and a call to wait for it;
// with OpenCode and Gemini, whose subagents are never in the background,
// SUBAGENTBG is SUBAGENT and WAITAGENT has nothing to do. OpenCode, Gemini, and
// Codex with models that aren't its own let no subagent start subagents: such a
// call comes back as an error, and the script continues. Codex has its own models
// call tools by scripts in JavaScript, of which one is an answer's calls. A subagent of Gemini hands in its last answer by the call
// that its agent demands.
//
// Requests that an agent makes for itself, for a title, a summary or a
// judgement, don't run the script, errors and gates included: those that lend
// the model no tools, but instructions or a schema for the answer. They get
// the topic of the conversation, or an instance of the schema.
//
// One answer holds all steps up to the first one that calls a tool, since the
// agent must then run it and ask again. When calls end the script, the answer
// after them is "FINAL after 1 tool result(s): …". The server keeps no state
// of conversations: the next step is counted from the tool results
// that follow the script in the request, so a resumed, forked or retried
// conversation continues as it would with a real model. Usage is always 100
// tokens in and 20 out.
//
// # Tests without sleeping
//
// A GATE holds an answer in mid-stream: [Server.Waiting] returns when a
// request has reached it and [Server.Open] lets it go on. A gate that was
// opened stays open, so names should not be used twice. [Server.Requests] and
// [Server.Stats] say what was asked, per agent session. Claude Code, Codex and
// OpenCode name their session in each request; a subagent counts under that of
// the user. Gemini CLI names none, so it counts under "", unless it is run with
// GEMINI_CLI_CUSTOM_HEADERS="X-Session-Id: name".
//
// # Parts
//
// script.go, progress.go and model.go are pure: conversation in, reply out.
// play.go adds timing and gates to a reply and writes it to a sink. Each
// protocol is a file that makes a conversation of a request and one that is
// its sink: anthropic.go, chat.go, responses.go with code.go, gemini.go. What they share is
// in prompts.go (what the user wrote, and what the agent added), tools.go (the
// agents' names for kinds of tools), side.go and stream.go.
package modelsim
