"""One thread per model, continuous batching over llama.cpp. Knows no Django, no HTTP, no accounts."""
