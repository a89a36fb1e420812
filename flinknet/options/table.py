"""The keys of Flink 1.20 and 2.3 that affect the network stack, as one table of text.

key | type and limits | default in 1.20 | default in 2.3 | older spellings | replacement in 2.x

Types: I int, L long, B boolean, F float, S text, E one of the listed words, P ports,
D duration, T seconds, N milliseconds, M memory size; `>=n`, `>0` and `<n` bound a number;
`~`: the limits are flinknet's own, and Flink takes or replaces other values.
Defaults: `unset`: none; `-`: not in that release; `fixed n`: no longer an option, always n.
Older spellings are deprecated, except with `~`: a broader key that Flink falls back to
(security.ssl.enabled in 1.x only).
"""

TABLE = """
[memory and buffers]
taskmanager.memory.segment-size | M | 32 kb | 32 kb |  |
taskmanager.memory.min-segment-size | M | 256 b | 256 b |  |
taskmanager.memory.starting-segment-size | M | - | 1 kb |  |
taskmanager.memory.network.fraction | F <1 | 0.1 | 0.1 | taskmanager.network.memory.fraction |
taskmanager.memory.network.min | M | 64 mb | 64 mb | taskmanager.network.memory.min |
taskmanager.memory.network.max | M | unlimited | unlimited | taskmanager.network.memory.max |
taskmanager.network.numberOfBuffers | I >=0 | 2048 | - |  | taskmanager.memory.network.fraction, .min and .max
taskmanager.network.memory.buffers-per-channel | I >=0 | 2 | fixed 2 |  |
taskmanager.network.memory.floating-buffers-per-gate | I >=0 | 8 | fixed 8 |  |
taskmanager.network.memory.max-buffers-per-channel | I >=2 ~ | 10 | fixed 10 |  |
taskmanager.network.memory.max-overdraft-buffers-per-gate | I >=0 ~ | 5 | fixed 20 |  |
taskmanager.network.memory.read-buffer.required-per-gate.max | I >=1 | unset | unset |  |
taskmanager.network.memory.buffers-request-timeout | D | 30 s | 30 s | taskmanager.network.memory.exclusive-buffers-request-timeout-ms |
taskmanager.network.memory.buffer-debloat.enabled | B | false | false |  |
taskmanager.network.memory.buffer-debloat.target | D | 1 s | 1 s |  |
taskmanager.network.memory.buffer-debloat.period | D | 200 ms | 200 ms |  |
taskmanager.network.memory.buffer-debloat.samples | I >=1 | 20 | 20 |  |
taskmanager.network.memory.buffer-debloat.threshold-percentages | I >=0 ~ | 25 | 25 |  |
taskmanager.memory.framework.off-heap.batch-shuffle.size | M | 64 mb | 64 mb |  |
taskmanager.memory.flink.size | M | unset | unset |  |
taskmanager.memory.process.size | M | unset | unset |  |
taskmanager.memory.task.heap.size | M | unset | unset |  |
taskmanager.memory.task.off-heap.size | M | 0 b | 0 b |  |
taskmanager.memory.managed.size | M | unset | unset | taskmanager.memory.size |
taskmanager.memory.managed.fraction | F <1 | 0.4 | 0.4 |  |
taskmanager.memory.managed.consumer-weights | S | OPERATOR:70,STATE_BACKEND:70,PYTHON:30 | OPERATOR:70,STATE_BACKEND:70,PYTHON:30 |  |
taskmanager.memory.framework.heap.size | M | 128 mb | 128 mb |  |
taskmanager.memory.framework.off-heap.size | M | 128 mb | 128 mb |  |
taskmanager.memory.jvm-metaspace.size | M | 256 mb | 256 mb |  |
taskmanager.memory.jvm-overhead.min | M | 192 mb | 192 mb |  |
taskmanager.memory.jvm-overhead.max | M | 1 gb | 1 gb |  |
taskmanager.memory.jvm-overhead.fraction | F <1 | 0.1 | 0.1 |  |
taskmanager.heap.size | M | unset | - |  | taskmanager.memory.flink.size
taskmanager.heap.mb | I >=0 | unset | - |  | taskmanager.memory.flink.size
taskmanager.cpu.cores | F >0 | unset | unset |  |
taskmanager.numberOfTaskSlots | I >=1 | 1 | 1 |  |
[shuffle]
execution.buffer-timeout.enabled | B | true | true |  |
execution.buffer-timeout.interval | D | 100 ms | 100 ms | execution.buffer-timeout |
execution.batch-shuffle-mode | E ALL_EXCHANGES_PIPELINED ALL_EXCHANGES_BLOCKING ALL_EXCHANGES_HYBRID_FULL ALL_EXCHANGES_HYBRID_SELECTIVE | ALL_EXCHANGES_BLOCKING | ALL_EXCHANGES_BLOCKING |  |
execution.runtime-mode | E STREAMING BATCH AUTOMATIC | STREAMING | STREAMING |  |
taskmanager.network.compression.codec | E NONE LZ4 LZO ZSTD | LZ4 | LZ4 |  |
taskmanager.network.batch-shuffle.compression.enabled | B | true | - | taskmanager.network.blocking-shuffle.compression.enabled | taskmanager.network.compression.codec
taskmanager.network.sort-shuffle.min-buffers | I >=1 ~ | 512 | 512 |  |
taskmanager.network.sort-shuffle.min-parallelism | I | 1 | fixed 1 |  |
taskmanager.network.blocking-shuffle.type | E auto file mmap ~ | file | fixed file |  |
taskmanager.network.hybrid-shuffle.enable-new-mode | B | true | - |  | nothing, tiered storage is always used
taskmanager.network.hybrid-shuffle.spill-index-region-group-size | I | 1024 | - | taskmanager.network.hybrid-shuffle.spill-index-segment-size | nothing, tiered storage is always used
taskmanager.network.hybrid-shuffle.num-retained-in-memory-regions-max | L | 1048576 | - |  | nothing, tiered storage is always used
taskmanager.network.hybrid-shuffle.remote.path | S | unset | unset |  |
taskmanager.network.hybrid-shuffle.external-remote-tier-factory.class | S | unset | unset |  |
taskmanager.network.adaptive-partitioner.enabled | B | - | false |  |
taskmanager.network.adaptive-partitioner.max-traverse-size | I >=2 ~ | - | 4 |  |
taskmanager.network.request-backoff.initial | N >=0 ~ | 100 | 100 | taskmanager.net.request-backoff.initial |
taskmanager.network.request-backoff.max | N >=0 ~ | 10000 | 10000 | taskmanager.net.request-backoff.max |
taskmanager.network.partition-request-timeout | D | 10 s | 10 s |  |
taskmanager.network.credit-model.enabled | B | fixed true | fixed true |  |
taskmanager.network.detailed-metrics | B | false | false |  |
jobmanager.partition.release-during-job-execution | B | true | true |  |
jobmanager.partition.hybrid.partition-data-consume-constraint | E ALL_PRODUCERS_FINISHED ONLY_FINISHED_PRODUCERS UNFINISHED_PRODUCERS | unset | unset |  |
[transport]
taskmanager.data.port | P | 0 | 0 |  |
taskmanager.data.bind-port | P | unset | unset |  |
taskmanager.host | S | unset | unset |  |
taskmanager.bind-host | S | unset | unset |  |
taskmanager.network.bind-policy | E ip name | ip | ip |  |
taskmanager.data.ssl.enabled | B | true | true |  |
taskmanager.network.netty.client.connectTimeoutSec | T >=1 ~ | 120 | 120 | taskmanager.net.client.connectTimeoutSec |
taskmanager.network.netty.client.tcp.keepIdleSec | I >=1 ~ | unset | unset |  |
taskmanager.network.netty.client.tcp.keepIntervalSec | I >=1 ~ | unset | unset |  |
taskmanager.network.netty.client.tcp.keepCount | I >=1 ~ | unset | unset |  |
taskmanager.network.retries | I >=0 ~ | 0 | 0 |  |
taskmanager.network.tcp-connection.enable-reuse-across-jobs | B | true | true |  |
taskmanager.network.max-num-tcp-connections | I >=1 ~ | 1 | fixed 1 |  |
taskmanager.network.netty.num-arenas | I | -1 | - | taskmanager.net.num-arenas | taskmanager.numberOfTaskSlots
taskmanager.network.netty.server.numThreads | I | -1 | - | taskmanager.net.server.numThreads | taskmanager.numberOfTaskSlots
taskmanager.network.netty.client.numThreads | I | -1 | - | taskmanager.net.client.numThreads | taskmanager.numberOfTaskSlots
taskmanager.network.netty.server.backlog | I >=0 ~ | 0 | - | taskmanager.net.server.backlog | nothing, the system's own is used
taskmanager.network.netty.sendReceiveBufferSize | I >=0 ~ | 0 | - | taskmanager.net.sendReceiveBufferSize | nothing, the system's own is used
taskmanager.network.netty.transport | E auto nio epoll ~ | auto | - | taskmanager.net.transport | nothing, epoll is used where there is one
security.ssl.internal.enabled | B | false | false | ~security.ssl.enabled |
security.ssl.internal.keystore | S | unset | unset | ~security.ssl.keystore |
security.ssl.internal.keystore-password | S | unset | unset | ~security.ssl.keystore-password |
security.ssl.internal.key-password | S | unset | unset | ~security.ssl.key-password |
security.ssl.internal.truststore | S | unset | unset | ~security.ssl.truststore |
security.ssl.internal.truststore-password | S | unset | unset | ~security.ssl.truststore-password |
security.ssl.internal.keystore-type | S | pkcs12 | pkcs12 |  |
security.ssl.internal.truststore-type | S | pkcs12 | pkcs12 |  |
security.ssl.internal.cert.fingerprint | S | unset | unset |  |
security.ssl.internal.session-cache-size | I | -1 | -1 | security.ssl.session-cache-size |
security.ssl.internal.session-timeout | N | -1 | -1 | security.ssl.session-timeout |
security.ssl.internal.handshake-timeout | N | -1 | -1 | security.ssl.handshake-timeout |
security.ssl.internal.close-notify-flush-timeout | N | -1 | -1 | security.ssl.close-notify-flush-timeout |
security.ssl.protocol | S | TLSv1.2 | TLSv1.2 |  |
security.ssl.algorithms | S | TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 | TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 |  |
security.ssl.provider | E JDK OPENSSL | JDK | JDK |  |
[checkpoints, graph and cluster]
execution.checkpointing.interval | D | unset | unset |  |
execution.checkpointing.timeout | D | 10 min | 10 min |  |
execution.checkpointing.mode | E EXACTLY_ONCE AT_LEAST_ONCE | EXACTLY_ONCE | EXACTLY_ONCE |  |
execution.checkpointing.unaligned.enabled | B | false | false | execution.checkpointing.unaligned |
execution.checkpointing.aligned-checkpoint-timeout | D | 0 s | 0 s | execution.checkpointing.alignment-timeout |
execution.checkpointing.unaligned.forced | B | false | false |  |
execution.checkpointing.unaligned.max-subtasks-per-channel-state-file | I | 5 | 5 |  |
execution.checkpointing.unaligned.interruptible-timers.enabled | B | false | false |  |
execution.checkpointing.checkpoints-after-tasks-finish | B | true | true | execution.checkpointing.checkpoints-after-tasks-finish.enabled |
execution.checkpointing.during-recovery.enabled | B | - | false |  |
execution.checkpointing.unaligned.recover-output-on-downstream.enabled | B | - | false |  |
pipeline.operator-chaining.enabled | B | true | true | pipeline.operator-chaining |
pipeline.operator-chaining.chain-operators-with-different-max-parallelism | B | true | true |  |
pipeline.max-parallelism | I | -1 | -1 |  |
parallelism.default | I | 1 | 1 |  |
pipeline.auto-generate-uids | B | true | true |  |
pipeline.vertex-description-mode | E TREE CASCADING | TREE | TREE |  |
pipeline.vertex-name-include-index-prefix | B | false | false |  |
heartbeat.interval | D | 10 s | 10 s |  |
heartbeat.timeout | D | 50 s | 50 s |  |
heartbeat.rpc-failure-threshold | I | 2 | 2 |  |
slot.request.timeout | D | 5 min | 5 min |  |
slot.idle.timeout | D | 50 s | 50 s |  |
taskmanager.slot.timeout | D | 10 s | 10 s | ~pekko.ask.timeout |
taskmanager.load-balance.mode | E NONE SLOTS MIN_RESOURCES TASKS | NONE | NONE |  |
jobmanager.execution.attempts-history-size | I >=0 ~ | 16 | 16 | job-manager.max-attempts-history-size |
jobmanager.execution.failover-strategy | E region full | region | region |  |
task.cancellation.interval | D | 30 s | 30 s | task.cancellation-interval |
task.cancellation.timeout | D | 3 min | 3 min |  |
restart-strategy.type | S | unset | unset | restart-strategy |
restart-strategy.fixed-delay.attempts | I >=0 ~ | 1 | 1 |  |
restart-strategy.fixed-delay.delay | D | 1 s | 1 s |  |
pipeline.auto-watermark-interval | D | 200 ms | 200 ms |  |
metrics.latency.interval | D | 0 ms | 0 ms |  |
metrics.latency.granularity | E single operator subtask ~ | operator | operator |  |
metrics.latency.history-size | I >=1 ~ | 128 | 128 |  |
"""  # noqa: E501 - one line for each key
