# moonpool_proto(NAME master_proto PROTO moonpool/v1/master.proto [DEPS moonpool::common_proto] [GRPC])
# Makes moonpool::master_proto (messages) and, with GRPC, moonpool::master_proto_grpc (stubs; only
# edge files link it). PROTO is relative to proto/; code lands in <build>/gen and is included as
# "moonpool/v1/master.pb.h" and "moonpool/v1/master.grpc.pb.h". Generated code is compiled without
# our warnings and its headers are SYSTEM for everyone else.
add_custom_target(moonpool_generated COMMENT "All code that protoc generates")

function(moonpool_proto)
  cmake_parse_arguments(ARG "GRPC" "NAME;PROTO" "DEPS" ${ARGN})
  set(root ${moonpool_SOURCE_DIR}/proto)
  set(gen ${moonpool_BINARY_DIR}/gen)
  string(REGEX REPLACE "\\.proto$" "" base ${ARG_PROTO})
  file(MAKE_DIRECTORY ${gen})

  add_custom_command(
    OUTPUT ${gen}/${base}.pb.cc ${gen}/${base}.pb.h
    COMMAND protobuf::protoc --cpp_out=${gen} -I ${root} ${ARG_PROTO}
    DEPENDS ${root}/${ARG_PROTO}
    COMMENT "protoc ${ARG_PROTO}" VERBATIM)
  _moonpool_generated_library(${ARG_NAME} ${gen} ${base}.pb)
  add_dependencies(moonpool_generated moonpool_${ARG_NAME})
  target_link_libraries(moonpool_${ARG_NAME} PUBLIC protobuf::libprotobuf ${ARG_DEPS})

  if(ARG_GRPC)
    add_custom_command(
      OUTPUT ${gen}/${base}.grpc.pb.cc ${gen}/${base}.grpc.pb.h
      COMMAND protobuf::protoc --grpc_out=${gen} -I ${root}
              --plugin=protoc-gen-grpc=$<TARGET_FILE:gRPC::grpc_cpp_plugin> ${ARG_PROTO}
      DEPENDS ${root}/${ARG_PROTO}
      COMMENT "protoc --grpc ${ARG_PROTO}" VERBATIM)
    _moonpool_generated_library(${ARG_NAME}_grpc ${gen} ${base}.grpc.pb)
    add_dependencies(moonpool_generated moonpool_${ARG_NAME}_grpc)
    target_link_libraries(moonpool_${ARG_NAME}_grpc PUBLIC moonpool_${ARG_NAME} gRPC::grpc++)
  endif()
endfunction()

function(_moonpool_generated_library name gen stem)
  add_library(moonpool_${name} ${gen}/${stem}.cc ${gen}/${stem}.h)
  add_library(moonpool::${name} ALIAS moonpool_${name})
  set_target_properties(moonpool_${name} PROPERTIES DEFINE_SYMBOL "")
  target_include_directories(moonpool_${name} SYSTEM PUBLIC ${gen})
endfunction()
