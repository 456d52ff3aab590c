// Package engine is a model of an inference server with continuous batching, written
// from the documentation of vLLM's V1 engine. It computes no tokens: the formula below
// gives the duration of a step, and every token is the same word.
//
// A step first schedules the running requests, in the order of their admission: each gets
// one token, or the rest of its prompt, out of a budget of MaxBatchedTokens (chunked
// prefill). Then it admits requests from the queue, in order of arrival, until the budget,
// MaxSequences or the blocks are used up. Its duration is
//
//	Base + PerPrefillToken · (tokens of prompts in the step) + PerSequence · (sequences that decode)
//
// The KV cache has Blocks blocks of BlockSize tokens. A sequence of n computed tokens
// holds ⌈n / BlockSize⌉. As in vLLM, a request is admitted when the blocks of its first
// chunk are free; nothing is reserved for the tokens that it will generate. When a
// sequence needs a block and none is free, the youngest running request is preempted:
// its blocks are free at once, it goes to the head of the queue, and its prompt and all
// of its generated tokens are computed again (preemption by recomputation). A step with
// a preemption admits nothing.
//
// Requests that arrive during a step, and aborts, take effect at the beginning of the next
// one; an abort frees its blocks before that step is scheduled. The metrics
// are updated at the end of each step, as vLLM records them once per iteration. So the
// page does not show a request until its first step has ended.
//
// The model omits prefix caching (a preempted request finds none of its blocks in the
// cache), the effect of sequence lengths on the duration of a step, and the time of the
// tokenizer and of the HTTP server.
//
// The constants of Default were fitted to one published figure; published_test.go
// compares the model with others.
//
// The Model has no clock and no goroutine: the same requests at the same times give the
// same steps. A Server runs it in real time behind vLLM's HTTP API.
package engine
