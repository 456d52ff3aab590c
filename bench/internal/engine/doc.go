// Package engine is a model of an inference server with continuous batching, written
// from the documentation of vLLM's V1 engine. It computes no tokens: a step takes as
// long as the formula below says, and a token is a fixed word.
//
// A step begins with the requests that run, in the order of their admission, and gives
// each one token, or as many as its prompt still needs, out of a budget of
// MaxBatchedTokens (chunked prefill). Then it admits requests from the queue, in order
// of arrival, while budget, MaxSequences and blocks last. Its duration is
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
// A request that arrives during a step is seen at the beginning of the next one, and so
// is an abort, which frees the blocks before the next step is scheduled. The metrics are
// those at the end of the latest step, as vLLM records them once per iteration. So the
// page does not show a request until its first step has ended.
//
// What the model leaves out: prefix caching (a preempted request finds none of its
// blocks), the growth of a step with the length of sequences, and the time of the
// tokenizer and of the HTTP server.
//
// The constants of Default were fitted to one published figure; published_test.go
// compares the model with others.
//
// The Model has no clock and no goroutine: the same requests at the same times give the
// same steps. A Server runs it in real time behind vLLM's HTTP API.
package engine
