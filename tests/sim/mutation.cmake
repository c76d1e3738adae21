# Of the preset `mutation`: the simulator runs with guards off, and so do the unit tests that see
# what no seed can, since another guard stands behind.
set(root ${moonpool_SOURCE_DIR})
target_sources(
  moonpool-sim
  PRIVATE mutation.cc
          ${root}/client_sdk/core/get_path_test.cc
          ${root}/master/core/durable_removal_test.cc
          ${root}/master/core/durable_test.cc
          ${root}/master/core/eviction_test.cc
          ${root}/master/core/node_test.cc
          ${root}/master/core/owed_test.cc
          ${root}/master/core/placement_test.cc
          ${root}/master/core/remove_test.cc
          ${root}/master/core/return_test.cc
          ${root}/master/core/spare_test.cc
          ${root}/master/handlers/reigns_test.cc
          ${root}/master/meta/records_test.cc
          ${root}/storage_node/journal/record_table_test.cc
          ${root}/storage_node/journal/table_journal_test.cc
          ${root}/storage_node/link/commands_test.cc
          ${root}/storage_node/link/master_link_test.cc
          ${root}/storage_node/pool/extent_index_pins_test.cc
          ${root}/storage_node/pool/extent_index_test.cc
          ${root}/transport/part_header_test.cc)
target_link_libraries(
  moonpool-sim PRIVATE moonpool::guard moonpool::client_core_testing moonpool::master_core_testing
                       moonpool::master_handlers_testing moonpool::node_journal_testing moonpool::node_link_testing
                       moonpool::node_pool_testing moonpool::common_testing GTest::gmock)
