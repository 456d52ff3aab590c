// Package enginemetrics reads the Prometheus page of a model server (vLLM, SGLang,
// TensorRT-LLM, Triton), and derives how many more requests may be admitted. A Poller
// fetches the page only while there are requests.
package enginemetrics
