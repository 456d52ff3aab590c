// Package engine is a model of an inference server with continuous batching. It was
// written from the documentation of vLLM's V1 engine. It computes no tokens: every
// token is the same word, and the formula below gives the duration of a step.
//
// A step first schedules the running requests in the order of their admission. Each
// gets one token, or the rest of its prompt, out of a budget of MaxBatchedTokens
// (chunked prefill). Then the step admits queued requests in order of arrival, until
// the budget, MaxSequences or the blocks are used up. The duration of the step is
//
//	Base + PerPrefillToken · (tokens of prompts in the step) + PerSequence · (sequences that decode)
//
// The KV cache has Blocks blocks of BlockSize tokens. A sequence of n computed tokens
// holds ⌈n / BlockSize⌉ blocks. As in vLLM, a request is admitted when there are free
// blocks for its first chunk. No blocks are reserved for the tokens that it will
// generate. When a sequence needs a block and none is free, the youngest running
// request is preempted. Its blocks are free at once, and it moves to the head of the
// queue. Its prompt and all tokens that it has generated are computed again (preemption
// by recomputation). A step with a preemption admits no requests.
//
// A request that arrives during a step enters the queue at the beginning of the next
// step. A request that is aborted during a step frees its blocks when the step ends. The
// metrics are updated at the end of each step, as vLLM records them once per iteration.
// So the metrics page does not show a request until its first step has ended.
//
// The model omits prefix caching, so a preempted request finds none of its blocks in
// the cache. It also omits the effect of sequence lengths on the duration of a step,
// and the time of the tokenizer and of the HTTP server.
//
// The constants of Default were fitted to one published figure. published_test.go
// compares the model with other published figures.
//
// The Model has no clock and no goroutine. If the same requests arrive at the same
// times, the steps are the same. A Server runs the Model in real time behind vLLM's
// HTTP API.
package engine
