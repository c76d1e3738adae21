#include "storage_node/options.h"

#include "common/config/units.h"

namespace moonpool::storage_node {
namespace {

void DescribeMemory(NodeOptions& node, ConfigTable& table) {
  table.Group("Memory");
  table.Bytes("dram", &node.dram_bytes, {4096, 256 * kTiB}, "Memory that is lent to the pool.");
  table.Choice<HugePages>(
      "huge-pages", &node.huge_pages,
      {{"auto", HugePages::kAuto}, {"on", HugePages::kOn}, {"off", HugePages::kOff}},
      "Reserved huge pages: if enough are free (else transparent ones), or an error, or none.");
  table.Int("prefault-threads", &node.prefault_threads, {0, 256},
            "Threads that touch the memory at start. 0: one per processor, at most 8.");
  table.Int("numa-node", &node.numa_node, {-1, 1023},
            "NUMA node that the memory is taken from. -1: wherever the kernel likes.");
  table.Text("pool.dir", &node.pool_dir,
             "Folder on tmpfs or hugetlbfs, like /dev/shm/moonpool-NAME, where the pool stays when "
             "the node ends, however it ends; the next one serves it on. Needs --name. Empty: the "
             "memory goes with the process.");
  table.Text(
      "pool.pins-dir", &node.pool_pins_dir,
      "Folder on tmpfs where clients of this host note what they view. Empty: in --pool-dir; "
      "needed where that is on hugetlbfs.");
  table.Duration("pool.lock-wait", &node.pool_lock_wait, {absl::ZeroDuration(), absl::Minutes(10)},
                 "How long to wait for a node that ends to let go of --pool-dir.");
}

void DescribeData(NodeOptions& node, ConfigTable& table) {
  table.Group("Data");
  table.ListenAddress("data.listen", &node.data_listen,
                      "Where clients move bytes over TCP; numeric. Port 0: any free one.");
  table.Text("data.advertise", &node.data_advertise,
             "HOST:PORT that clients are told instead; port 0 is the one listened on. Needed "
             "with --data-listen 0.0.0.0.");
  table.Int("io-threads", &node.io_threads, {1, 64}, "Threads of the TCP server.");
  table.Int("data.connections-max", &node.connections_max, {1, 1 << 20},
            "Data connections at a time, of each kind.");
  table.Int("data.parts-max", &node.parts_max, {1, uint32_t{1} << 31},
            "Parts of objects in the pool at a time.");
  table.Int("copy.threads", &node.copy_threads, {1, 64},
            "Threads that fetch parts from other nodes when the master moves or repairs objects.");
  table.Bytes("scrub.rate", &node.scrub_bytes_per_second, {0, 64 * kGiB},
              "Bytes per second of stored parts that are looked at for damage, over and over, at "
              "most once a minute. 0: only those that a reader found damaged.");
  table.Bool("shm.enabled", &node.shm_enabled, "Serve processes of this host by shared memory.");
  table.Text("shm.path", &node.shm_path,
             "Unix socket of the shared-memory server. Empty: a private one under /run/user or "
             "/tmp.");
  table.Bool("shm.mapped-writers", &node.shm_mapped_writers,
             "Let processes of the same user write into the mapped pool.");
  table.Int("shm.pin-slots", &node.shm_pin_slots, {1, 65536}, "Views at a time of one process.");
}

}  // namespace

void Describe(ProgramOptions& options, ConfigTable& table) {
  NodeOptions& node = options.node;
  table.Group("Cluster");
  table.PeerAddresses("master", &node.masters, "Masters, tried in turn.");
  table.Text("name", &node.name,
             "Unique in the cluster and the same after a restart. Empty: hostname-port.");
  table.Text("rack", &node.rack, "Failure domain that the host belongs to.");
  table.Text("host-id", &node.host_id,
             "Equal on hosts that share memory. Empty: from machine id and boot id.");
  table.Duration("link.backoff-max", &node.backoff_max, {absl::Milliseconds(100), absl::Minutes(5)},
                 "Longest pause between attempts to reach a master.");
  DescribeMemory(node, table);
  DescribeData(node, table);
  table.Group("Operations");
  table.ListenAddress("http.listen", &options.http_listen,
                      "Where /metrics, /healthz and /config are. Port 0: any free one.");
}

}  // namespace moonpool::storage_node
