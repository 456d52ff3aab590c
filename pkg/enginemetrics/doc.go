// Package enginemetrics reads the Prometheus page of a model server (vLLM, SGLang,
// TensorRT-LLM, Triton) and derives from it how many more requests may be admitted. A
// Poller fetches the page while there are requests, and not otherwise.
package enginemetrics
